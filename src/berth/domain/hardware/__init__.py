"""NUMA cells, CPUs, pages and PCI devices of hosts, and what guests ask of them."""
