"""The libvirt driver: each guest is a persistent domain of the host's libvirtd (ADR 0019)."""
