"""The Image API, to look at: the images that the configuration names."""
