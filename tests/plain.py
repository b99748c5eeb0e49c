"""HTTP as tests speak it to servers that they have started: without TLS."""

import ssl
from typing import Final

PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""What is trusted, which is nobody. Without it httpx reads all certificates of the machine at
each call, and that takes longer than the call."""
