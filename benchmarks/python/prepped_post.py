"""The Python baseline of `kvferry-bench micro --agent --python PYTHON`: what NIXL's own bindings cost the
calling thread to make one transfer of many descriptors, in the form that engines use (prepared lists and
numpy indices). Two agents of one process; nothing is transferred. One command a line of stdin, one answer
a line of stdout, as native/bare_loop.cc has it. Ends when stdin ends."""
import importlib
import os
import sys
import time

# The bindings log to stdout, where the answers go: those get a descriptor of their own.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(*words):
    print(*words, file=answers, flush=True)


def bindings():
    reasons = []
    for name in ("nixl", "nixl_cu12", "nixl_cu13"):
        try:
            return importlib.import_module(name + "._api")
        except ImportError as error:
            reasons.append(f"{name}: {error}")
    raise RuntimeError("no NIXL bindings (" + "; ".join(reasons) + ")")


class Baseline:
    def __init__(self, name, descriptor_count, descriptor_bytes):
        import numpy

        api = bindings()
        size = 2 * descriptor_count * descriptor_bytes
        self.memories = [numpy.zeros(size, dtype=numpy.uint8) for _ in range(2)]
        config = api.nixl_agent_config(enable_prog_thread=False, backends=["UCX"])
        self.agent, self.other = (api.nixl_agent(f"{name}-{i}", config) for i in range(2))
        for agent, memory in zip((self.agent, self.other), self.memories):
            agent.register_memory([(memory.ctypes.data, size, 0, "")], "DRAM")
        peer = self.agent.add_remote_agent(self.other.get_agent_metadata())

        def descriptors(memory):
            starts = memory.ctypes.data + numpy.arange(2 * descriptor_count) * descriptor_bytes
            ranges = [(int(at), descriptor_bytes, 0) for at in starts]
            return self.agent.get_xfer_descs(ranges, "DRAM")

        self.local = self.agent.prep_xfer_dlist("", descriptors(self.memories[0]))
        self.remote = self.agent.prep_xfer_dlist(peer, descriptors(self.memories[1]))
        # Every second one, so that neighbours can't be merged; as in ours.
        self.indices = numpy.arange(descriptor_count, dtype=numpy.int32) * 2

    def make(self, count):
        """Times of `count` calls in ns."""
        times = []
        for _ in range(count):
            started = time.perf_counter_ns()
            handle = self.agent.make_prepped_xfer(
                "READ", self.local, self.indices, self.remote, self.indices
            )
            times.append(time.perf_counter_ns() - started)
            self.agent.release_xfer_handle(handle)
        return times


def main():
    name, descriptor_count, descriptor_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    try:
        baseline = Baseline(name, descriptor_count, descriptor_bytes)
    except Exception as error:
        say("error", str(error).replace("\n", " "))
        return
    say("ready", sys.version.split()[0])
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "make":
            say("ok", *baseline.make(int(arguments[0])))
        else:
            say("error unknown command", command)


main()
