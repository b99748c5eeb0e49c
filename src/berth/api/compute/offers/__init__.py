"""The operations by which parent zones select, build and release offers of this zone."""
