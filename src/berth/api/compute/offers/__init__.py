"""The operations by which parent zones select, build by and release offers of this zone."""
