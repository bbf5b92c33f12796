"""One driver process: started once, commanded by lines (bench/driver.h)."""
import json
import os
import subprocess
import threading

from . import machine
from .server import child_setup


PATIENCE_S = 300        # no answer takes so long, not even a million locks


class DriverError(Exception):
    pass


class Driver:
    def __init__(self, name, command, cpus, environment):
        self.name = name
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment}, preexec_fn=lambda: child_setup(cpus))
        self.version = self.answer().get("version", "")

    @property
    def pid(self):
        return self.process.pid

    def send(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise DriverError("%s: the driver has ended" % self.name) from None

    def answer(self):
        watch = threading.Timer(PATIENCE_S, self.process.kill)
        watch.start()
        line = self.process.stdout.readline()
        watch.cancel()
        if not line:
            raise DriverError("%s: the driver ended with status %s" % (self.name, self.process.wait()))
        answer = json.loads(line)
        if answer.get("error"):
            raise DriverError("%s: %s" % (self.name, answer["error"]))
        return answer

    def ask(self, line):
        self.send(line)
        return self.answer()

    def cpu_s(self):
        return machine.cpu_s(self.pid)

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
