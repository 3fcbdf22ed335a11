"""A private Slurm of two nodes on this machine: munged, slurmctld and two slurmd as children, everything they write in one folder.

    python -m tests.pipelines.slurm_cluster FOLDER     brings one up, says how to reach it, ends with Ctrl-C
"""
from __future__ import annotations

import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo")
NODES = ("one", "two")
CONFIGURATION = """ClusterName=private
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
SlurmctldPort={ports[0]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
JobRequeue=0
KillWait=20
SlurmdTimeout=3
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=100000
NodeName={nodes[0]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=500
NodeName={nodes[1]} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=500
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Programs that have to be installed (Debian: slurm-wlm, munge)."""
    return [name for name in PROGRAMS if program(name) is None]


def program(name: str) -> str | None:
    """Where it is; administrators' folders are not on everybody's PATH."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Cluster:
    """Up from construction to `close`; `environment` is what programs need to find it."""

    def __init__(self, folder: Path):
        self.folder, self.daemons = folder, {}
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        (folder / "state").mkdir(parents=True)
        key = folder / "munge.key"
        key.write_bytes(secrets.token_bytes(64))
        key.chmod(0o400)
        text = CONFIGURATION.format(folder=folder, host=socket.gethostname().split(".")[0], user=getpass.getuser(), nodes=NODES,
                                    ports=free_ports(3))
        (folder / "slurm.conf").write_text(text, encoding="utf-8")
        files = {"key-file": key, "socket": folder / "munge.socket", "pid-file": folder / "munged.pid", "log-file": folder / "munged.log",
                 "seed-file": folder / "munge.seed"}
        try:
            self.start("munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items()))
            self.wait("munge.socket", (folder / "munge.socket").exists)
            self.start("slurmctld", "-D")
            for node in NODES:
                self.start("slurmd", "-D", "-N", node, name=node)
            self.wait("two idle nodes", self.idle)
        except BaseException:
            self.close()
            raise

    def start(self, command: str, *words: str, name: str | None = None) -> None:
        """A daemon, in a process group of its own with what it starts."""
        log = (self.folder / f"{name or command}.out").open("w", encoding="utf-8")
        self.daemons[name or command] = subprocess.Popen([program(command), *words], stdout=log, stderr=subprocess.STDOUT,
                                                         env=os.environ | self.environment, start_new_session=True)

    def wait(self, what: str, true, seconds: float = 30.0) -> None:
        """Until `true()`; RuntimeError with what the daemons said."""
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() > until:
                said = "\n".join(f"{path.name}: {path.read_text(encoding='utf-8')[-1500:]}" for path in sorted(self.folder.glob("*.out")))
                raise RuntimeError(f"no {what} within {seconds:.0f} s\n{said}")
            time.sleep(0.1)

    def ask(self, *command: str) -> str:
        """What a program of Slurm prints."""
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | self.environment, check=False).stdout

    def idle(self) -> bool:
        """Whether all nodes wait for jobs."""
        return self.ask("sinfo", "--noheader", "--format=%D %t").split() == [str(len(NODES)), "idle"]

    def node_of(self, job: str) -> str:
        return self.ask("squeue", "--noheader", "--format=%N", f"--jobs={job}").strip()

    def take_away(self, node: str) -> None:
        """As if a machine lost its power: the node's daemon and every process of its jobs, at once."""
        for pid in [self.daemons[node].pid, *self.processes(node)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.daemons.pop(node).wait()

    def processes(self, node: str) -> set[int]:
        """Of the jobs on a node, with those that watch over them."""
        marks = {f"SLURMD_NODENAME={node}".encode(), f"SLURM_CONF={self.folder / 'slurm.conf'}".encode()}
        found = set()
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):                # it has ended, or is somebody else's
                if marks <= set((path / "environ").read_bytes().split(b"\0")):
                    found.add(int(path.name))
                    parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                    if Path(f"/proc/{parent}/comm").read_text().startswith("slurmstepd"):
                        found.add(parent)
        return found

    def close(self) -> None:
        """Ends all daemons and whatever their jobs still do."""
        if "slurmctld" in self.daemons:
            self.ask("scancel", "--signal=KILL", f"--user={getpass.getuser()}")
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
        self.daemons = {}


def main() -> None:
    cluster = Cluster(Path(sys.argv[1]).resolve())
    print(f"export SLURM_CONF={cluster.environment['SLURM_CONF']}\n{cluster.ask('sinfo')}", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        cluster.close()


if __name__ == "__main__":
    main()
