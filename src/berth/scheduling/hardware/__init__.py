"""NUMA cells and PCI devices: the hosts that fit a guest, and the hardware assigned to it."""
