"""The QEMU driver: one QEMU process a guest, told what to do over QMP; no daemon."""
