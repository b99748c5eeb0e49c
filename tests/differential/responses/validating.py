"""Validates responses with the code and the schemas of the real Nova; run by `.venv-nova`.

The first line of the output lists Nova's routes. Each line of the input is a list of items of a
route's index, a minor version, a status and a body; the answer is a list with the error of each, or
null.
"""

import importlib
import json
import os
import sys
from typing import Any

os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", "1")
routes: Any = importlib.import_module("nova.api.openstack.compute.routes")
validators: Any = importlib.import_module("nova.api.validation.validators")
exception: Any = importlib.import_module("nova.exception")

NEWEST = 10_000


def minor_of(version: Any, default: int) -> int:  # noqa: ANN401 - Nova has no types
    """Return the minor number of a version, which Nova writes as text, as an object or as null."""
    if version is None:
        return default
    if isinstance(version, str):
        return int(version.partition(".")[2])
    return default if version.is_null() else int(version.ver_minor)


def methods() -> list[tuple[str, str, str | None, Any]]:
    """Return method, path, action and function of each route."""
    found: list[tuple[str, str, str | None, Any]] = []
    for path, by_method in routes.ROUTE_LIST:
        if isinstance(by_method, str):
            continue
        for method, (maker, name) in by_method.items():
            controller, others = maker.args if getattr(maker, "args", ()) else (maker, [])
            if name != "action":
                found.append((method, path, None, getattr(controller, name)))
                continue
            for one in (controller, *others):
                acting = [each for each in vars(one).values() if hasattr(each, "wsgi_action")]
                found += [(method, path, each.wsgi_action, each) for each in acting]
    return found


def route_of(method: str, path: str, action: str | None, function: Any) -> dict[str, Any]:  # noqa: ANN401 - likewise
    """Return a route with its microversions, success codes and the ranges of its schemas."""
    codes = getattr(function, "wsgi_codes", None)
    return {
        "method": method,
        "path": path,
        "action": action,
        "since": max(minor_of(getattr(function, "min_version", None), 1), 1),
        "until": minor_of(getattr(function, "max_version", None), NEWEST),
        "is_removed": getattr(function, "removed", False),
        "codes": [
            (code, minor_of(low, 0), minor_of(high, NEWEST))
            for code, low, high in (codes._codes if codes else ())
        ],
        "ranges": [
            (minor_of(low, 0), minor_of(high, NEWEST))
            for _, low, high in function.response_body_schemas._schemas
        ],
    }


class Judge:
    """Validates bodies, with one validator for each schema."""

    def __init__(self) -> None:
        self.found = methods()
        self._validators: dict[int, Any] = {}

    def error_of(self, index: int, minor: int, body: object) -> str | None:
        """Return what Nova's validator finds wrong in a body, or None."""
        function = self.found[index][3]
        for schema, low, high in function.response_body_schemas._schemas:
            if minor_of(low, 0) <= minor <= minor_of(high, NEWEST):
                validator = self._validators.get(id(schema))
                if validator is None:
                    validator = validators._SchemaValidator(schema)
                    self._validators[id(schema)] = validator
                try:
                    validator.validate(body)
                except exception.ValidationError as error:
                    return f"{error.kwargs.get('detail', error)}"[:600]
                return None
        return "Nova has no schema for this version"


def main() -> None:
    """Answer lines of items until the input ends."""
    judge = Judge()
    sys.stdout.write(json.dumps([route_of(*one) for one in judge.found]) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        told = [judge.error_of(*item) for item in json.loads(line)]
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
