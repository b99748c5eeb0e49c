"""Drivers: the algorithms that make plans. The policy names one."""
