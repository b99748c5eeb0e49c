"""The QEMU driver: one QEMU process for each guest, controlled over QMP, without a daemon."""
