"""Messages between zones and between the processes of one zone, and their authentication."""
