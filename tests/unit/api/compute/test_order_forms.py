"""The errors about texts in the orders of parent zones."""

import re

import pytest

from berth.api.compute.offers.orders import FLAVOR_ID, ID, NAME, UUID, check_form
from berth.domain.errors import InvalidInputError


@pytest.mark.parametrize(
    ("pattern", "text", "reason"),
    [
        (UUID, "A0", "'A0' must be a UUID in lower case"),
        (ID, "a b", "'a b' must consist of 1 to 255 printable ASCII characters without spaces"),
        (FLAVOR_ID, " a", "' a' must consist of 1 to 255 printable ASCII characters, and not"),
        (NAME, "a\nb", r"'a\nb' must consist of 1 to 300 characters other than control"),
    ],
)
def test_the_error_says_which_texts_are_allowed(
    pattern: re.Pattern[str], text: str, reason: str
) -> None:
    """The error names the field, quotes the text and describes the pattern."""
    with pytest.raises(InvalidInputError, match=f"^the.field: {re.escape(reason)}"):
        check_form(pattern, text, "the.field")
    check_form(pattern, "0" * 8 + "-0000" * 3 + "-" + "0" * 12, "the.field")
