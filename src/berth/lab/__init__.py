"""The lab: traces, a simulator over them and an independent auditor."""
