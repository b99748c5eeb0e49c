"""The operations with which parent zones select, use and release offers of this zone."""
