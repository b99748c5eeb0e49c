"""NUMA cells and PCI devices: which hosts can take a guest, and what it receives there."""
