"""The lab: traces and their replay, an independent auditor, and trees of zones for demos."""
