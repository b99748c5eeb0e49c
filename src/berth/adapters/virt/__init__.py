"""The drivers of compute hosts: fake, QEMU without a daemon, and libvirt."""
