"""NUMA cells, CPUs, memory pages and PCI devices of hosts, and the demands of guests on them."""
