"""The interface of filters and weighers, and the code that several of them share."""
