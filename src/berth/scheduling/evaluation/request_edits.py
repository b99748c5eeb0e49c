"""Edits of requests: extra specs, and the image properties of the same names."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from berth.domain.compute.request import Request


def without_keys(request: Request, *keys: str) -> Request:
    """Return the request without extra specs, and without the image properties of the same name."""
    properties = {key.replace("hw:", "hw_") for key in keys}
    image = request.image
    if image is not None and not properties.isdisjoint(image.properties):
        image = replace(image, properties=without(image.properties, properties))
    flavor = replace(request.flavor, extra_specs=without(request.flavor.extra_specs, keys))
    return replace(request, flavor=flavor, image=image)


def without(texts: Mapping[str, str], keys: Collection[str]) -> dict[str, str]:
    """Return a mapping without some of its keys."""
    return {key: text for key, text in texts.items() if key not in keys}


def with_spec(request: Request, key: str, value: str) -> Request:
    """Return the request with an extra spec, and without the image property of the same name."""
    less = without_keys(request, key)
    specs = {**less.flavor.extra_specs, key: value}
    return replace(less, flavor=replace(less.flavor, extra_specs=specs))


def value_of(request: Request, key: str) -> str:
    """Return the value of an extra spec, or else of the image property of the same name, or ""."""
    properties: Mapping[str, str] = request.image.properties if request.image else {}
    return request.flavor.extra_specs.get(key) or properties.get(key.replace("hw:", "hw_"), "")
