"""A read-only Image API for the images in the configuration."""
