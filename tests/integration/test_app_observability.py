"""Metrics and spans of a process, by its settings."""

import subprocess
import sys
from pathlib import Path

import pytest

from berth.adapters.system import LogTelemetry, SystemClock
from berth.app.observability import observe
from berth.config.settings import Settings
from berth.config.settings_reader import read_settings
from berth.config.telemetry_settings import MetricsSettings, TracingSettings
from berth.domain.errors import InvalidInputError

_WITHOUT_EXTRA = """
import sys
sys.modules["opentelemetry"] = None
from berth.cli.main import main
sys.argv = ["berth", "scheduler", "--data", sys.argv[1]]
sys.exit(main())
"""
_WITHOUT_TRACING = """
import sys
import berth.app.processes
sys.exit("opentelemetry" in sys.modules or "requests" in sys.modules)
"""


def test_metrics_are_on_and_spans_are_not() -> None:
    """Metrics are enabled by default; spans and the metrics address are not."""
    seen = observe(Settings(), "up", SystemClock(), LogTelemetry("up"))
    assert seen.metrics is not None
    assert seen.tracer is None
    assert seen.listen is None


def test_nobody_has_to_look() -> None:
    """With metrics disabled, a process has neither metrics nor a batch callback."""
    settings = Settings(metrics=MetricsSettings(enabled=False))
    seen = observe(settings, "up", SystemClock(), LogTelemetry("up"))
    assert seen.metrics is None
    assert seen.on_batch is None


@pytest.mark.parametrize("listen", ["9464", "127.0.0.1", "127.0.0.1:99999", "::1:9464"])
def test_an_address_must_be_one(listen: str) -> None:
    """A wrong address for metrics is refused, and the error names the setting."""
    with pytest.raises(InvalidInputError, match=r"(?i)metrics.listen"):
        observe(
            read_settings(None, {"BERTH_METRICS_LISTEN": listen}, {}),
            "up",
            SystemClock(),
            LogTelemetry("up"),
        )


@pytest.mark.parametrize("endpoint", ["collector:4318", "http://user:s3same@host/", "ftp://host/"])
def test_an_endpoint_must_be_one(endpoint: str) -> None:
    """A wrong endpoint for spans is refused, and neither the error nor repr() shows a secret."""
    with pytest.raises(InvalidInputError) as caught:
        read_settings(None, {"BERTH_TRACING_ENDPOINT": endpoint}, {})
    assert "tracing.endpoint" in str(caught.value)
    assert "s3same" not in str(caught.value)
    assert "s3same" not in repr(TracingSettings(endpoint="http://host/s3same"))


def test_without_the_extra_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process with a tracing endpoint but without the extra ends and says what to install."""
    monkeypatch.setenv("BERTH_TRACING_ENDPOINT", "http://127.0.0.1:9/v1/traces")
    words = [sys.executable, "-c", _WITHOUT_EXTRA, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode != 0
    assert "pip install 'berth-scheduler[telemetry]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_of_it_is_loaded_without_spans() -> None:
    """Importing the processes loads neither OpenTelemetry nor requests."""
    words = [sys.executable, "-c", _WITHOUT_TRACING]
    assert subprocess.run(words, timeout=100, check=False).returncode == 0
