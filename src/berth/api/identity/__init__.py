"""The part of OpenStack's Identity API that clients need: tokens, catalog, users and projects."""
