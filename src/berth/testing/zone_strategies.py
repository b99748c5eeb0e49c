"""Hypothesis strategies for child zones and for the instances sent to them."""

from hypothesis import strategies as st

from berth.domain.zones.zone import RemoteInstance, RemoteInstanceStage, Zone
from berth.testing.value_strategies import counts, names, seconds, texts, uuids

_SIZES = st.tuples(counts, counts)

_weights = st.floats(-1e9, 1e9)


def zones() -> st.SearchStrategy[Zone]:
    """Draw the record of a child zone."""
    return st.builds(
        Zone,
        zone_id=st.integers(1, 2**31),
        name=st.text("abcdefghijklmnopqrstuvwxyz0123456789-_.", min_size=1, max_size=64),
        api_url=names.map(lambda name: f"http://{name}"),
        username=texts,
        sealed_password=texts,
        weight_offset=_weights,
        weight_scale=st.floats(1e-9, 1e9),
        is_enabled=st.booleans(),
    )


def remote_instances() -> st.SearchStrategy[RemoteInstance]:
    """Draw the record of an instance that was sent to a child zone."""
    return st.builds(
        RemoteInstance,
        instance_uuid=uuids,
        zone_id=st.integers(1, 2**31),
        stage=st.sampled_from(RemoteInstanceStage),
        project_id=texts,
        user_id=texts,
        reservation_id=texts,
        request_id=texts,
        sent_ms=counts,
        created_at_s=seconds,
        updated_at_s=seconds,
        counts_as=st.none() | _SIZES,
        resize=st.none() | st.tuples(_SIZES, _SIZES),
        group_uuid=st.none() | texts,
        asking_until_s=seconds,
    )
