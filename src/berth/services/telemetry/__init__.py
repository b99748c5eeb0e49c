"""The telemetry of a process: metrics, spans, health and notifications."""
