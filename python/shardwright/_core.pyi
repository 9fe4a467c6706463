"""The C++ core of shardwright: functions of JSON text."""

def version() -> str:
    """Version of the C++ core."""

def sha256(text: str) -> str:
    """
    SHA-256 of the text's UTF-8 bytes, in hexadecimal: the hash that plans and graphs carry.
    """

def normalize_json(text: str, what: str) -> str:
    """
    The text as compact JSON, keys in their order. Raises ShardwrightError (code 'parse_error') naming `what` when it is not JSON.
    """
