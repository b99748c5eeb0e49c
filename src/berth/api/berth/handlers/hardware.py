"""NUMA cells and PCI devices of hosts, as Berth's own API writes them."""

from berth.api.berth.schemas.hosts import NumaCellView, PagesView, PciPoolView
from berth.domain.hardware.cpu_sets import cpus_of
from berth.tables.host.cell_use import FreeCell
from berth.tables.host.pci import FreePool


def cell_view(free: FreeCell) -> NumaCellView:
    """Show a cell with what is left of it."""
    cell = free.shape.cell
    free_kb = dict(free.pages_kb)
    return NumaCellView(
        cell_id=cell.cell_id,
        socket=cell.socket,
        cpuset=sorted(cell.cpuset),
        pcpuset=sorted(cell.pcpuset),
        siblings=[sorted(core) for core in cell.siblings],
        memory_mb=cell.memory_mb,
        mempages=[
            PagesView(
                size_kb=pages.size_kb,
                total=pages.total,
                reserved=pages.reserved,
                free=free_kb[pages.size_kb] // pages.size_kb,
            )
            for pages in cell.mempages
        ],
        free_cpus=cpus_of(free.free),
        shared_used=free.shared_used,
        memory_used_mb=free.memory_used_mb,
    )


def pool_view(free: FreePool) -> PciPoolView:
    """Show a pool with what is left of it."""
    pool = free.pool
    return PciPoolView(
        vendor_id=pool.vendor_id,
        product_id=pool.product_id,
        dev_type=pool.dev_type,
        numa_node=pool.numa_node,
        address=pool.address,
        tags=pool.tags,
        count=pool.count,
        free=free.free,
    )
