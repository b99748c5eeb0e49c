"""The providers of Placement's own test fixtures, as data."""

from collections.abc import Iterator

from tests.conformance.placement.scenes import Holder, Node, Stock, node, uuid_of

SHARES = "MISC_SHARES_VIA_AGGREGATE"
CPUS = Stock(24, allocation_ratio=16.0)
DISK = Stock(2000, reserved=100)
SWITCHED = "CUSTOM_VNIC_TYPE_NORMAL"
DIRECT = "CUSTOM_VNIC_TYPE_DIRECT CUSTOM_VNIC_TYPE_DIRECT_PHYSICAL CUSTOM_VNIC_TYPE_MACVTAP"


def shared_storage() -> tuple[Node, ...]:
    """Return two hosts with two cells and two network cards each, and two shared disks."""
    memory = Stock(128 * 1024, allocation_ratio=1.5)
    sse = "HW_CPU_X86_SSE HW_CPU_X86_SSE2"
    hosts = (
        node("cn1", "CN1_UUID", aggregates="AGG_UUID", traits=sse, VCPU=CPUS, MEMORY_MB=memory),
        node("cn2", "CN2_UUID", aggregates="AGG_UUID", VCPU=CPUS, MEMORY_MB=memory, DISK_GB=DISK),
        node("ss", "SS_UUID", aggregates="AGG_UUID", traits=SHARES, DISK_GB=DISK),
        node("ss2", "SS2_UUID", aggregates="AGG_UUID", traits=SHARES, DISK_GB=DISK),
    )
    places = ("1_1", "1_2", "2_1", "2_2")
    cells = (node(f"numa{at}", f"NUMA{at}_UUID", parent=f"cn{at[0]}") for at in places)
    cards = (node(f"pf{at}", f"PF{at}_UUID", parent=f"numa{at}", SRIOV_NET_VF=8) for at in places)
    return (*hosts, *cells, *cards)


def numa_aggregates() -> tuple[Node, ...]:
    """Return two hosts with two cells each, a disk for both hosts, and one for a cell."""
    return (
        node("cn1", "CN1_UUID", aggregates="AGGA_UUID"),
        node("cn2", "CN2_UUID", aggregates="AGGA_UUID AGGB_UUID"),
        node("ss1", "SS1_UUID", aggregates="AGGA_UUID", traits=SHARES, DISK_GB=DISK),
        node("ss2", "SS2_UUID", aggregates="AGGC_UUID", traits=SHARES, DISK_GB=DISK),
        node("numa1_1", "NUMA1_1_UUID", parent="cn1", aggregates="AGGC_UUID", VCPU=CPUS),
        node("numa1_2", "NUMA1_2_UUID", parent="cn1", VCPU=CPUS),
        node("numa2_1", "NUMA2_1_UUID", parent="cn2", VCPU=CPUS),
        node("numa2_2", "NUMA2_2_UUID", parent="cn2", VCPU=CPUS),
    )


def numa_network(above_1: str | None = None, above_2: str | None = None) -> tuple[Node, ...]:
    """Return a shared disk, a host of cells, accelerators and agents, and one of network cards.

    Args:
        above_1: the parent of the first host.
        above_2: the parent of the second host.
    """
    disk = node("ss1", "SS1_UUID", aggregates="AGGA_UUID", traits=SHARES, DISK_GB=2000)
    return (disk, *_host_of_cells(above_1), *_host_of_cards(above_2))


def deep_numa_network() -> tuple[Node, ...]:
    """Return the providers of `numa_network` with both hosts two levels below one root."""
    above = (node("gp1"), node("p1", parent="gp1"), node("p2", parent="gp1"))
    return (*above, *numa_network("p1", "p2"))


def numa_network_holders() -> tuple[Holder, ...]:
    """Return two consumers, each with CPUs of one host."""
    owner = {"project_id": "numafx-project", "user_id": "numafx-user"}
    return (
        Holder("on numa0", "numa0", {"VCPU": 2}, **owner),
        Holder("on cn2", "cn2", {"VCPU": 3}, **owner),
    )


def _host_of_cells(above: str | None) -> Iterator[Node]:
    multiattach = "COMPUTE_VOLUME_MULTI_ATTACH"
    yield node("cn1", "CN1_UUID", parent=above, aggregates="AGGA_UUID", traits=multiattach)
    memory = Stock(2048, min_unit=512, step_size=256)
    yield _cell("0", "HW_NUMA_ROOT", memory)
    yield _cell("1", "HW_NUMA_ROOT CUSTOM_FOO", Stock(2048, min_unit=256, max_unit=1024))
    yield node("fpga0", "FPGA0_UUID", parent="numa0", FPGA=1)
    yield node("pgpu0", "PGPU0_UUID", parent="numa0", VGPU=8)
    yield node("fpga1_0", "FPGA1_0_UUID", parent="numa1", FPGA=1)
    yield node("fpga1_1", "FPGA1_1_UUID", parent="numa1", FPGA=1)
    direct = "CUSTOM_VNIC_TYPE_DIRECT"
    yield node("sriov_agent", "SRIOV_AGENT_UUID", parent="cn1", traits=direct)
    yield _link("esn1", "sriov_agent", 1, 10_000)
    yield _link("esn2", "sriov_agent", 2, 20_000)
    yield node("ovs_agent", "OVS_AGENT_UUID", parent="cn1", traits=SWITCHED)
    yield _link("br_int", "ovs_agent", 0, 1_000)


def _cell(number: str, traits: str, memory: Stock) -> Node:
    name = f"numa{number}"
    return node(name, f"NUMA{number}_UUID", parent="cn1", traits=traits, VCPU=4, MEMORY_MB=memory)


def _link(name: str, agent: str, network: int, kilobits: int) -> Node:
    return node(
        name,
        f"{name.upper()}_UUID",
        parent=agent,
        traits=f"CUSTOM_PHYSNET{network}",
        NET_BW_EGR_KILOBIT_PER_SEC=kilobits,
    )


def _host_of_cards(above: str | None) -> Iterator[Node]:
    yield node(
        "cn2",
        "CN2_UUID",
        parent=above,
        aggregates="AGGA_UUID",
        traits="CUSTOM_FOO",
        VCPU=8,
        MEMORY_MB=Stock(2048, min_unit=1024, step_size=128),
        DISK_GB=1000,
    )
    for card, functions_of_port in ((1, (4, 4)), (2, (2, 2, 2, 2)), (3, (8,))):
        traits = "CUSTOM_HW_NIC_ROOT"
        yield node(f"nic{card}", f"NIC{card}_UUID", parent="cn2", traits=traits)
        for port, functions in enumerate(functions_of_port, start=1):
            name, network = f"{card}_{port}", 2 - port % 2
            yield node(
                f"pf{name}",
                f"PF{name}_UUID",
                parent=f"nic{card}",
                traits=f"CUSTOM_PHYSNET{network}",
                CUSTOM_VF=functions,
            )


def own_storage() -> tuple[Node, ...]:
    """Return three hosts with disks of their own."""
    return tuple(
        node(f"cn{at}", f"CN{at}_UUID", VCPU=24, MEMORY_MB=128 * 1024, DISK_GB=2000)
        for at in (1, 2, 3)
    )


def granular() -> tuple[Node, ...]:
    """Return three different hosts, two shared disks and a shared network."""
    avx = "HW_CPU_X86_AVX HW_CPU_X86_AVX2"
    return (
        node(
            "cn_left",
            "CN_LEFT",
            aggregates="AGGA",
            traits=f"{avx} HW_GPU_API_DXVA HW_NIC_DCB_PFC CUSTOM_FOO",
            VCPU=8,
            MEMORY_MB=4096,
            DISK_GB=500,
            VGPU=8,
            SRIOV_NET_VF=8,
            CUSTOM_NET_MBPS=4000,
        ),
        node(
            "cn_middle",
            "CN_MIDDLE",
            aggregates="AGGA AGGB",
            traits=f"{avx} HW_CPU_X86_SSE HW_NIC_ACCEL_TLS",
            VCPU=8,
            MEMORY_MB=4096,
            SRIOV_NET_VF=8,
            CUSTOM_NET_MBPS=4000,
        ),
        node(
            "cn_right",
            "CN_RIGHT",
            aggregates="AGGB AGGC",
            traits="HW_CPU_X86_MMX HW_GPU_API_DXVA CUSTOM_DISK_SSD",
            VCPU=8,
            MEMORY_MB=4096,
            DISK_GB=500,
            VGPU=Stock(8, max_unit=2),
        ),
        _disk("1", "AGGA", f"{SHARES} CUSTOM_DISK_SSD"),
        _disk("2", "AGGA AGGB", SHARES),
        node(
            "shr_net",
            "SHR_NET",
            aggregates="AGGC",
            traits=SHARES,
            SRIOV_NET_VF=16,
            CUSTOM_NET_MBPS=40_000,
        ),
    )


def _disk(number: str, aggregates: str, traits: str) -> Node:
    name = f"shr_disk_{number}"
    return node(name, name.upper(), aggregates=aggregates, traits=traits, DISK_GB=1000)


def network_segments() -> tuple[Node, ...]:
    """Return four hosts with a switch and cards, on another segment, S1, S2, and both."""
    return (
        *_compute("compute0", 5_000, 10_000, "OTHER"),
        *_compute("compute1", 5_000, 10_000, "MSN_S1"),
        *_compute("compute2", 5_000, 10_000, "MSN_S2"),
        *_compute("compute3", 1_000, 1_000, "MSN_S1", "MSN_S2"),
    )


def _compute(name: str, bridge_kilobits: int, card_kilobits: int, *segments: str) -> Iterator[Node]:
    yield node(name, name, VCPU=8, MEMORY_MB=4096, DISK_GB=500)
    switch, cards = f"{name}:Open vSwitch agent", f"{name}:NIC Switch agent"
    yield node(
        switch,
        f"{name}:ovs_agent",
        parent=name,
        traits=SWITCHED,
        NET_PACKET_RATE_KILOPACKET_PER_SEC=1000,
    )
    for at, segment in enumerate(segments):
        suffix = str(at + 1) if at else ""
        bridge = (f"{switch}:br-ex{suffix}", f"{name}:br_ex{suffix}")
        yield _port(*bridge, switch, f"{SWITCHED} CUSTOM_PHYSNET_{segment}", bridge_kilobits)
    yield node(cards, f"{name}:sriov_agent", parent=name, traits=DIRECT)
    for at, segment in enumerate(segments):
        card = (f"{cards}:enp129s0f{at}", f"{name}:pf{at}")
        yield _port(*card, cards, f"{DIRECT} CUSTOM_PHYSNET_{segment}", card_kilobits)


def _port(name: str, variable: str, parent: str, traits: str, kilobits: int) -> Node:
    return node(
        name,
        variable,
        parent=parent,
        traits=traits,
        NET_BW_EGR_KILOBIT_PER_SEC=kilobits,
        NET_BW_IGR_KILOBIT_PER_SEC=kilobits,
    )


def one_used_provider() -> tuple[Node, ...]:
    """Return the provider that three consumers have allocations of."""
    disk = Stock(2048, step_size=10, min_unit=10, max_unit=1000)
    return (node(uuid_of("RP_NAME"), uuid=uuid_of("RP_UUID"), DISK_GB=disk, VCPU=10),)


def one_used_provider_holders() -> tuple[Holder, ...]:
    """Return two consumers of one user and one of another."""
    name, project_id, user_id = uuid_of("RP_NAME"), uuid_of("PROJECT_ID"), uuid_of("USER_ID")
    return (
        Holder("CONSUMER_0", name, {"DISK_GB": 1000}, project_id, user_id),
        Holder("CONSUMER_ID", name, {"VCPU": 6}, project_id, user_id),
        Holder(
            "ALT_CONSUMER_ID",
            name,
            {"DISK_GB": 20, "VCPU": 1},
            project_id,
            uuid_of("ALT_USER_ID"),
        ),
    )
