"""Telemetry: metrics, spans, notifications and health of a process."""
