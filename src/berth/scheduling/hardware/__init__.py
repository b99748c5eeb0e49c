"""NUMA cells and PCI devices: which hosts have them, and which of them an instance gets."""
