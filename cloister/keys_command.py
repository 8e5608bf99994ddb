"""The commands `keys ...`: who takes part in a deployment. What they do is in protocol/pki/, imported when asked for."""

from __future__ import annotations

import datetime as dt
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from .errors_in_one_line import one_line_errors
from .passphrase import VARIABLE, new_passphrase, passphrase

DAY = 86_400
NAMED = 8
"""Certificates that are named."""
keys = typer.Typer(
    name="keys",
    no_args_is_help=True,
    rich_markup_mode="rich",
    help=f"""Make and look after the keys of a deployment: an authority, certificates for links, identities for signatures.

All on one machine:  cloister keys init pki --run trial --clients 4

Every party then has its folder, pki/parties/NAME, to be moved to where it runs. pki/authority.key stays with you.

A client that makes its own keys, which never leave its machine:

1. the client:  cloister keys request mine client-4 --run trial

2. you, with its two request files and the fingerprint that it reads to you:
    cloister keys enrol pki request.csr --identity request.identity --fingerprint FINGERPRINT

3. the client, with your folder pki/public:  cloister keys accept mine public --authority FINGERPRINT

Compare fingerprints by another way than the files came: the client's request, and the authority's (cloister keys show pki).

Private keys are not encrypted, unless you say --encrypt. A passphrase is read from {VARIABLE} or asked for, and never
an argument. Formats and guarantees: protocol/specs/pki.md.
""",
)

Folder = Annotated[Path, typer.Argument(help="The authority's folder.")]
Who = Annotated[str, typer.Argument(metavar="PARTY", help="coordinator, second-server, dealer, client-0, client-1 ...")]
Run = Annotated[str, typer.Option("--run", metavar="NAME", help="Name of the run: what all parties take part in.")]
Hosts = Annotated[
    list[str] | None, typer.Option("--server-name", metavar="HOST", help="Name or address where servers are reached. Repeatable.")
]
Days = Annotated[int, typer.Option(min=1, max=3650, help="For how long what is signed now is valid.")]
Encrypt = Annotated[bool, typer.Option("--encrypt", help=f"Encrypt new private keys: passphrase from {VARIABLE}, or asked for.")]
Force = Annotated[bool, typer.Option("--force", help="Write over keys that exist. Whoever trusted them trusts these no more.")]
RequestFile = Annotated[Path | None, typer.Option("--request", metavar="FILE", help="Its new certificate request.")]
IdentityFile = Annotated[Path | None, typer.Option("--identity", metavar="FILE", help="Its new identity file.")]
Told = Annotated[
    str | None,
    typer.Option("--fingerprint", metavar="FINGERPRINT", help="As the party reads it to you; files of another one are refused."),
]
NewIdentities = Annotated[
    bool,
    typer.Option(
        "--new-identities",
        help="Other identities too: between runs, as charters name those of their clients. A server's always are.",
    ),
]


@keys.command()
def init(
    folder: Folder,
    run: Run,
    clients: Annotated[int, typer.Option(min=0, help="Clients 0, 1 ... whose keys are made here; 0: all send requests.")],
    server_name: Hosts = None,
    two_servers: Annotated[bool, typer.Option("--two-servers", help="A second server and a dealer, too (TwoServer).")] = False,
    days: Days = 365,
    encrypt: Encrypt = False,
    force: Force = False,
) -> None:
    """Make an authority, and keys and certificates for servers and clients.

    Try:  cloister keys init pki --run trial --clients 4 --server-name fl.example.org

    Without --server-name, servers are reached as localhost. FOLDER/parties/NAME is all that a party needs; FOLDER/public is for
    everybody. Whoever has FOLDER/authority.key decides who takes part: keep it off the machines that run servers.
    """
    with one_line_errors():
        from .protocol.pki import office

        hosts = server_name or ["localhost", "127.0.0.1", "::1"]
        lock = new_passphrase(encrypt)
        trust = office.init(folder, run, clients, hosts, two_servers=two_servers, now=_now(), days=days, lock=lock, force=force)
    _say(f"authority    {_groups(trust.authority.fingerprint)}")
    _say(f"parties      {len(trust.directory.entries)}, each in {folder / office.PARTIES}/NAME; move them to where they run")
    _say(f"for all      {folder / office.PUBLIC}")
    _say(f"keep secret  {folder / office.KEY}")


@keys.command()
def request(
    folder: Annotated[Path, typer.Argument(help="Folder for this party's keys, on its own machine.")],
    party: Who,
    run: Run,
    again: Annotated[
        bool, typer.Option("--again", help="Another key for the link, used once its certificate is accepted.")
    ] = False,
    new_identities: NewIdentities = False,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="A key on P-256 for the link, e.g. openssl's. Default: a new one."),
    ] = None,
    encrypt: Encrypt = False,
    force: Force = False,
) -> None:
    """Make a party's own keys, and what it sends to the authority.

    Try:  cloister keys request mine client-4 --run trial

    With --key, any certificate request for that key will do in the place of request.csr, such as openssl's:
    openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -subj /CN=client-4 -keyout link.key -out client-4.csr

    Send request.csr and request.identity; the .key files stay. Tell the fingerprint by another way: nobody then swaps the files.
    """
    with one_line_errors():
        from .protocol.pki import party as parties
        from .protocol.pki.names import id_of
        from .protocol.pki.statement import Statement

        lock = new_passphrase(encrypt)
        unlock = (lambda: lock) if encrypt else passphrase()  # one passphrase for all keys of a folder
        if new_identities and not again:
            raise ValueError("--new-identities goes with --again")
        _, statement = parties.request(
            folder, run, id_of(party), again=again, identities=new_identities, link=key, unlock=unlock, lock=lock, force=force
        )
        fingerprint = Statement.open(statement, run).fingerprint
    _say(f"send         {folder / parties.REQUEST} and {folder / parties.STATEMENT}")
    _say(f"fingerprint  {_groups(fingerprint)}")


@keys.command()
def enrol(
    folder: Folder,
    request: Annotated[
        Path,
        typer.Argument(metavar="REQUEST.csr", help="Certificate request for the folder's link.key, PEM or DER; openssl's too."),
    ],
    identity: Annotated[Path, typer.Option("--identity", metavar="FILE", help="The identity file that came with it.")],
    server_name: Hosts = None,
    days: Days = 365,
    fingerprint: Told = None,
) -> None:
    """Enrol a party that made its keys elsewhere.

    Try:  cloister keys enrol pki request.csr --identity request.identity --fingerprint FINGERPRINT

    Who it is stands in the request (CN) and in the identity file. Without --fingerprint, compare the one that is printed with
    the one that the party reads to you, before you hand out FOLDER/public.
    """
    with one_line_errors():
        from .protocol.pki import office
        from .protocol.pki.names import name_of

        sent, told = _sent(request, identity), None if fingerprint is None else _bytes_of(fingerprint)
        done = office.enrol(folder, *sent, server_name or (), now=_now(), days=days, fingerprint=told, unlock=passphrase())
    _say(f"enrolled     {name_of(done.party)}")
    _say(f"fingerprint  {_groups(done.fingerprint)}")
    _say(f"hand out     {folder / office.PUBLIC}")


@keys.command()
def accept(
    folder: Annotated[Path, typer.Argument(help="This party's own folder.")],
    public: Annotated[Path, typer.Argument(help="A copy of the authority's folder public/.")],
    party: Annotated[str | None, typer.Option(metavar="NAME", help="Who this is. Default: as in its request.")] = None,
    authority: Annotated[
        str | None, typer.Option(metavar="FINGERPRINT", help="Of the authority, as it was told to you. Needed the first time.")
    ] = None,
) -> None:
    """Take a certificate, the directory and the revocation list from the authority, after all checks.

    Try:  cloister keys accept mine public --authority FINGERPRINT

    Another authority's, an older directory or list than the one here, and one that binds other keys to your name are refused.
    """
    with one_line_errors():
        from .protocol.pki import party as parties
        from .protocol.pki.certificates import read_request
        from .protocol.pki.names import id_of
        from .protocol.pki.private_files import read

        if party is None and not (folder / parties.REQUEST).is_file():
            raise ValueError(
                f"{folder} has no request of a party's: `cloister keys request {folder} NAME --run RUN` makes its keys first, and"
                " --party NAME says who it is where the request is not kept"
            )
        name = party or read_request(read(folder / parties.REQUEST))[0]
        fingerprint = None if authority is None else _bytes_of(authority)
        trust = parties.accept(folder, id_of(name), public, _now(), fingerprint, passphrase())
    versions = f"directory {trust.directory.header.version}, revocation list {trust.revoked.header.version}"
    _say(f"accepted     {versions}, for {name}")


@keys.command()
def rotate(
    folder: Folder,
    party: Who,
    request: RequestFile = None,
    identity: IdentityFile = None,
    fingerprint: Told = None,
    new_identities: NewIdentities = False,
    days: Days = 365,
    encrypt: Encrypt = False,
) -> None:
    """Replace the key and certificate of a party's link, and a server's identity; the old certificate is revoked.

    Try:  cloister keys rotate pki client-2

    A party whose keys are not in FOLDER/parties makes them with `cloister keys request --again` and sends both files:
    cloister keys rotate pki client-4 --request request.csr --identity request.identity --fingerprint FINGERPRINT
    """
    with one_line_errors():
        from .protocol.pki import office
        from .protocol.pki.names import id_of

        if (request is None) != (identity is None):
            raise ValueError("--request and --identity come together")
        if fingerprint is not None and request is None:
            raise ValueError("--fingerprint is of files that the party sent: --request and --identity")
        sent = None if request is None or identity is None else _sent(request, identity)
        told = None if fingerprint is None else _bytes_of(fingerprint)
        lock = new_passphrase(encrypt)
        unlock = (lambda: lock) if encrypt else passphrase()  # one passphrase for all keys of a folder
        done = office.rotate(
            folder,
            id_of(party),
            sent,
            identities=new_identities,
            now=_now(),
            days=days,
            fingerprint=told,
            unlock=unlock,
            lock=lock,
        )
    _say(f"rotated      {party}")
    _say(f"fingerprint  {_groups(done.fingerprint)}")
    if sent is None:
        _say(f"carry over   {folder / office.PARTIES / party}: to {party}, in the place of the keys that it has")
    _say(f"hand out     {folder / office.PUBLIC}")


@keys.command()
def revoke(folder: Folder, party: Who, days: Days = 365) -> None:
    """Take a party's certificate back: who has the new list ends its streams and lets it in no more.

    Try:  cloister keys revoke pki client-2

    The list is FOLDER/public/revoked.cbor: hand it to all parties. `rotate` gives the party another certificate.
    """
    with one_line_errors():
        from .protocol.pki import office
        from .protocol.pki.names import id_of

        done = office.revoke(folder, id_of(party), now=_now(), days=days, unlock=passphrase())
    _say(f"revoked      {party}; the list has version {done.header.version}")
    _say(f"hand out     {folder / office.PUBLIC}")


@keys.command()
def renew(folder: Folder, days: Days = 365) -> None:
    """Sign the directory and the revocation list anew, before they expire or after. Certificates are renewed by `rotate`.

    Try:  cloister keys renew pki --days 90
    """
    with one_line_errors():
        from .protocol.pki import office
        from .protocol.pki.listing import listing
        from .protocol.pki.names import name_of

        trust = office.renew(folder, now=_now(), days=days, unlock=passphrase())
        until = trust.directory.header.until
        listed = [(of.until, name_of(of.party)) for of in listing(folder, _now()).rows if of.until and of.revoked is None]
    _say(f"renewed      until {_day(until)}")
    sooner = sorted((ends, party) for ends, party in listed if ends < until - DAY)
    for ends, party in sooner[:NAMED]:
        _say(f"not renewed  the certificate of {party}, until {_day(ends)}: cloister keys rotate {folder} {party}")
    if len(sooner) > NAMED:
        _say(f"             and those of {len(sooner) - NAMED} more: cloister keys show {folder}")
    _say(f"hand out     {folder / office.PUBLIC}")


@keys.command()
def show(folder: Annotated[Path, typer.Argument(help="The authority's folder, its public/, or a party's own.")]) -> None:
    """Show who is enrolled: serial numbers, until when, fingerprints of identities, and who is revoked.

    Try:  cloister keys show pki

    A fingerprint is that of a party's request, where its identity file is in FOLDER: its own, or the authority's copy. A party's
    folder that has no authority yet has its own alone. Below it stand the first digits of the public keys that a party signs
    with, by what for: link, what opens a connection beside its certificate; sums, keys and masks of sums; pairs and pair seed,
    what two clients send each other; seed, what all clients share. They are to tell two keys apart, not to be read out.
    """
    with one_line_errors():
        from .protocol.pki.listing import listing, own_fingerprint, pending
        from .protocol.pki.names import name_of

        if (own := own_fingerprint(folder)) is not None:
            _say(f"{own[0]}, of no authority yet; `cloister keys accept` takes what the authority hands out")
            _say(f"fingerprint  {_groups(bytes.fromhex(own[1]))}")
            return
        found = listing(folder, _now())
        for row in found.rows:  # a line for each value: none is broken in a terminal of 80 columns
            _say(name_of(row.party) + ("" if row.revoked is None else f", revoked {_day(row.revoked)}"))
            _say(f"  serial       {row.serial}")
            if row.until is not None:
                over = ", which is over: `cloister keys rotate` makes another" if row.until <= _now() else ""
                _say(f"  valid until  {_day(row.until)}{over}")
            if row.fingerprint:
                _say(f"  fingerprint\n    {_groups(bytes.fromhex(row.fingerprint))}")
            for use, fingerprint in row.identities.items():
                _say(f"  {use:<12} {fingerprint}")
        asked = pending(folder)
    if asked is not None:
        _say(f"{asked[0]} has asked for other keys, which are not certified yet; of that request")
        _say(f"  fingerprint\n    {_groups(bytes.fromhex(asked[1]))}")
    _say(f"run          {found.run}")
    _say(f"authority    {_groups(bytes.fromhex(found.fingerprint))}")
    _say(f"directory    version {found.directory}; revocation list version {found.revoked}")
    _say(f"valid until  {_day(found.until)}")
    if found.problem:
        _say(f"not accepted now: {found.problem}")


def _sent(request: Path, identity: Path) -> tuple[bytes, bytes]:
    from .protocol.pki.certificates import MOST_BYTES
    from .protocol.pki.private_files import read

    return read(request, most=MOST_BYTES), read(identity, most=MOST_BYTES)


def _now() -> int:
    return int(time.time())


def _day(seconds: int) -> str:
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M} UTC"


def _groups(fingerprint: bytes) -> str:
    """For people to compare: 64 hexadecimal digits in groups of 8."""
    digits = fingerprint.hex()
    return "-".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def _bytes_of(fingerprint: str) -> bytes:
    digits = fingerprint.replace("-", "").replace(":", "").replace(" ", "")
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise ValueError(
            "a fingerprint has 64 hexadecimal digits, as `cloister keys request` and, of an authority, `keys show` print it"
        )
    return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
