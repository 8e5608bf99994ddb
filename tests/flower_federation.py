"""A Flower federation on this machine: a SuperLink under TLS, SuperNodes with keys that it knows, and runs of apps."""

import datetime
import ipaddress
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID

PROGRAMS = Path(sys.executable).parent


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def loopback_certificate():
    """Of 127.0.0.1, by itself, and its key: PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "superlink")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    built = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    built = built.serial_number(x509.random_serial_number()).not_valid_before(now - day).not_valid_after(now + day)
    built = built.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = built.add_extension(here, critical=False).sign(key, hashes.SHA256())
    return signed.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


class Federation:
    """nodes: of these numbers. home: of a node, its own folder."""

    def __init__(self, folder, nodes=4):
        self.folder, self.nodes, self.started = folder, range(nodes), {}
        self.port = free_port()
        self.environment = os.environ | {
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
            "FLWR_HOME": str(folder / "flwr"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
        }

    def home(self, node):
        return self.folder / f"node {node}"

    def start(self):
        certificate, key = loopback_certificate()
        for name, content in (("ca.pem", certificate), ("link.pem", certificate), ("link.key", key)):
            (self.folder / name).write_bytes(content)
        (self.folder / "flwr").mkdir()
        where = f'address = "127.0.0.1:{self.port}"\nroot-certificates = "{self.folder / "ca.pem"}"\n'
        (self.folder / "flwr/config.toml").write_text(f'[superlink]\ndefault = "here"\n\n[superlink.here]\n{where}')
        files = ["--ssl-ca-certfile", "ca.pem", "--ssl-certfile", "link.pem", "--ssl-keyfile", "link.key"]
        alone = ["--enable-supernode-auth", "--disable-runtime-dependency-installation", "--port", str(self.port)]
        self._begin("superlink", ["flower-superlink", *files, *alone])
        self._until(lambda: self.cli("list", "--format", "json", check=False).returncode == 0, "the SuperLink does not answer")
        for node in self.nodes:
            self.register(node)
            self.begin(node)

    def register(self, node):
        key = ec.generate_private_key(ec.SECP384R1())
        private, public = self.folder / f"node {node}.key", self.folder / f"node {node}.pub"
        private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
        public.write_bytes(key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH))
        self.cli("supernode", "register", str(public), "here")

    def begin(self, node, **config):
        given = {"partition-id": node, "cloister-folder": str(self.home(node)), **config}
        said = " ".join(f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in given.items())
        command = ["flower-supernode", "--root-certificates", "ca.pem", "--superlink", f"127.0.0.1:{self.port}"]
        command += ["--auth-supernode-private-key", f"node {node}.key", "--node-config", said, "--port", str(free_port())]
        self._begin(f"node {node}", command)

    def run(self, app, seconds, **config):
        """Its status when it has ended. What its ServerApp says is in run.log, as long as Flower's stream of it lasts."""
        said = " ".join(f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in config.items())
        until = time.monotonic() + seconds
        (self.folder / "run.log").unlink(missing_ok=True)
        self._begin("run", ["flwr", "run", str(app), "here", "--stream", "--run-config", said])
        code = self.started.pop("run").wait(seconds)
        run = re.search(r"run (\d{6,})", self.log("run"))
        assert run is not None, f"{code}: {self.log('run')}"
        while not (status := self.status(run[1])).startswith("finished"):
            assert time.monotonic() < until, f"{code}, {status}: {self.log('run')}"
            time.sleep(10)
        return status

    def status(self, run):
        told = self.cli("list", "--run-id", run, "--format", "json").stdout
        return json.loads(told[told.index("{") :])["runs"][0]["status"]

    def cli(self, *words, check=True):
        command = [str(PROGRAMS / "flwr"), *words]
        done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert not check or done.returncode == 0, f"{words}: {done.stdout[-2000:]} {done.stderr[-2000:]}"
        return done

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()

    def stop(self):
        for process in self.started.values():
            process.terminate()
        for process in self.started.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _begin(self, name, command):
        with open(self.folder / f"{name}.log", "a") as log:
            command = [str(PROGRAMS / command[0]), *command[1:]]
            self.started[name] = subprocess.Popen(command, cwd=self.folder, env=self.environment, stdout=log, stderr=log)

    def _until(self, there, words, seconds=120.0, pause=0.5):
        until = time.monotonic() + seconds
        while not there():
            assert time.monotonic() < until, words
            time.sleep(pause)
