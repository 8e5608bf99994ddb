"""How many connections and files a server may have open at once."""

import resource

WANTED = 1 << 16


def raise_limit() -> int:
    """As many as the machine lets this process have, up to WANTED: the usual 1,024 are soon taken by connections of strangers,
    who need no certificate to be one, and a server that can open no file any more ends. The limit that there is then.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft
