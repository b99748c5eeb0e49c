"""The part of OpenStack's Identity API that clients need: tokens, the catalog and names."""
