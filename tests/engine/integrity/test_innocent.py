"""What the rules about texts leave alone, and what only looks like it."""

import time

import pytest

from engine.evaluate.integrity.findings import CHEAT
from engine.evaluate.integrity.texts import static_cuda, static_python

KERNEL = """
import atexit, linecache, multiprocessing, os, subprocess, sys, tempfile, time, weakref
import torch

def kernel(x):
    return launch(x)
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from multiprocessing.pool import ThreadPool

def kernel(x):
"""
JOINED = """
import threading

def start():
    t = threading.Thread(target=print)
    t.start()
    return t

def join(threads):
    for t in threads:
        t.join()

"""
METHOD = """
import cutlass.cute as cute

class Stage:
    @cute.kernel
    def on_gpu(self, x: cute.Tensor):
        pass

    @cute.jit
    def start(self, x: cute.Tensor):
        {call}
"""
SEEDED = "def prepare():\n    torch.manual_seed(0)\n"


def cheats(text: str) -> set[str]:
    findings, _ = static_python.check(KERNEL + text)
    return {f.code for f in findings if f.severity == CHEAT}


@pytest.mark.parametrize(
    "text",
    [
        METHOD.format(call="self.on_gpu(x).launch(grid=(1, 1, 1), block=(32, 1, 1))"),
        SEEDED,
        SEEDED + "def demo():\n    prepare()\n",
        SEEDED + "if __name__ == '__main__':\n    prepare()\n",
        "n = multiprocessing.cpu_count()\n",
        "print('x', file=sys.stderr)\nsys.stdout.flush()\n",
        "fd, path = tempfile.mkstemp()\nos.write(fd, b'x')\n",
        "gcc = subprocess.Popen(['gcc'])\ngcc.communicate()\n",
        "for name in ('float16', 'float32'):\n    print(getattr(torch, name))\n",
        "open('/proc/cpuinfo')\n",
        "class A:\n    def __init__(self):\n        weakref.finalize(self, print)\n        self.__dict__.update(a=1)\n",
        "torch.manual_seed(0)\n",
        "import faulthandler\nfaulthandler.enable()\n",
        "import mmap\nspace = mmap.mmap(-1, 4096)\n",
        "os.listdir('build')\nos.listdir(os.path.dirname(__file__))\n",
        "subprocess.run(['gcc', '/dev/stdin'], input='')\n",
        "sys.stdout.write('compiled\\n')\n",
        "import traceback\ndef f(e):\n    print(traceback.format_exception(type(e), e, e.__traceback__))\nf(0)\n",
        "import threading\ndef f():\n    t = threading.Thread(target=f, daemon=True)\n    t.join()\nf()\n",
        "from multiprocessing.pool import ThreadPool\nwith ThreadPool(2) as pool:\n    pool.map(print, [1])\n",
        "import concurrent.futures\nwith concurrent.futures.ThreadPoolExecutor() as pool:\n    pass\n",
        POOL
        + "    pool = ThreadPoolExecutor()\n    try:\n        pool.map(f, x)\n    finally:\n        pool.shutdown()\n",
        POOL + "    pool = ThreadPoolExecutor()\n    wait([pool.submit(print)])\n    pool.shutdown(wait=True)\n",
        POOL + "    pool = ThreadPool()\n    pool.map(print, x)\n    pool.close()\n    pool.join()\n",
        POOL + "    with ExitStack() as stack:\n        stack.enter_context(ThreadPoolExecutor()).map(print, x)\n",
        "import threading\ndef f():\n    t = threading.Thread(target=f)\n    t.join(30)\n    t.join(timeout=5)\nf()\n",
        JOINED + "def g():\n    join([start(), start()])\ng()\n",
        "import base64\ntable = torch.frombuffer(bytearray(base64.b64decode('AACAPw==')), dtype=torch.float32)\n",
        "print(kernel.__code__.co_argcount)\nkernel.__dict__['tag'] = 1\n",
        "class A:\n    def __init__(self):\n        self.kind = 'float16'\n        getattr(torch, self.kind)\n",
        "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n",
        "import asyncio\nasync def f():\n    await asyncio.sleep(0)\nasyncio.run(f())\n",
        "math = __import__('math')\nmath.floor(1.5)\n",
        "bad = set()\ndef build():\n    try:\n        open('x')\n    except OSError:\n        bad.add(1)\nbuild()\n",
    ],
)
def test_what_is_innocent_is_not_accused(text):
    assert cheats(text) == set()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (METHOD.format(call="pass"), "dressed"),
        (SEEDED + "prepare()\n", "seeded"),
        (SEEDED + "hook = prepare\n", "seeded"),
        (SEEDED + "def demo():\n    prepare()\ndemo()\n", "seeded"),
        (SEEDED + "globals()['pre' + 'pare']()\n", "seeded"),
        (SEEDED + "getattr(sys.modules[__name__], 'pre' + 'pare')()\n", "seeded"),
        (SEEDED + "names = ['prepare']\nimport operator\n", "seeded"),
        (SEEDED + "if __name__ != '__main__':\n    prepare()\n", "seeded"),
        (SEEDED + "if __name__ == '__main__':\n    pass\nelse:\n    prepare()\n", "seeded"),
        (SEEDED + "__name__ = '__main__'\nif __name__ == '__main__':\n    prepare()\n", "seeded"),
        (SEEDED + "look = getattr\nlook(torch, 'pre' + 'pare')()\n", "seeded"),
        (SEEDED + "import pkgutil\npkgutil.resolve_name('candidate:pre' + 'pare')()\n", "seeded"),
        (SEEDED.replace("prepare", "_A__f") + "class A:\n    def g(self):\n        __f()\n", "seeded"),
        (SEEDED + "import builtins\nbuiltins.eval('pre' + 'pare()')\n", "seeded"),
        ("@torch.no_grad()\n" + SEEDED, "seeded"),
        (SEEDED.replace("prepare", "__getattr__"), "seeded"),
        (SEEDED.replace("prepare", "get_init_inputs"), "seeded"),
        (SEEDED.replace("prepare", "get_inputs") + "x = get_inputs()\n", "seeded"),
        ("p = multiprocessing.Process(target=print)\n", "threads"),
        (POOL + "    pool = ThreadPoolExecutor()\n    pool.map(print, x)\n    pool.shutdown(wait=False)\n", "threads"),
        (POOL + "    pool = ThreadPoolExecutor()\n    pool.map(print, x)\n    pool.shutdown(False)\n", "threads"),
        (POOL + "    global pool\n    pool = ThreadPoolExecutor()\n    pool.shutdown()\n", "threads"),
        (POOL + "    other.shutdown()\n    pool = ThreadPoolExecutor()\n    pool.map(print, x)\n", "threads"),
        ("import threading\ndef f():\n    t = threading.Thread(target=f)\n    t.join(0)\nf()\n", "threads"),
        ("import threading\ndef f():\n    t = threading.Thread(target=f)\n    ' '.join('a')\nf()\n", "threads"),
        (JOINED.replace("t.join()", "pass") + "def g():\n    join([start()])\ng()\n", "threads"),
        (JOINED + "start()\ndef g():\n    join([])\ng()\n", "threads"),
        ("import base64\ntable = base64.b64decode('AACAPw==')\n", "hidden_code"),
        ("import base64\nopen('x', 'wb').write(bytearray(base64.b64decode('AACAPw==')))\n", "hidden_code"),
        ("kernel.__code__ = print\n", "harness_access"),
        ("kernel = launch\nprint(kernel.__code__)\n", "harness_access"),
        ("mp = __import__('multiprocessing')\n", "threads"),
        ("import asyncio\nloop = asyncio.new_event_loop()\n", "threads"),
        ("import importlib\nimportlib.import_module('engine.sandbox')\n", "harness_access"),
        ("__import__('eng' + 'ine')\n", "hidden_code"),
        ("__import__('torch').matmul = print\n", "patched_module"),
        ("__import__('pickle').loads(b'')\n", "hidden_code"),
        ("import signal\nsignal.signal(signal.SIGALRM, print)\n", "harness_access"),
        ("globals()['__builtins__']['eval']\n", "harness_access"),
        ("own = dict(globals())\nown.get('__loader__')\n", "harness_access"),
        ("globals()['__' + 'builtins__']\n", "harness_access"),
        ("for name in ('kernel', '__builtins__'):\n    globals()[name]\n", "harness_access"),
        ("vars(time)['sleep'] = print\n", "harness_access"),
        ("vars(torch).update(matmul=print)\n", "harness_access"),
        ("import time as t\nclock = vars(t)\nclock['sleep'] = print\n", "harness_access"),
        ("from multiprocessing import Pool\n", "threads"),
        ("sys.stdout.write('{}')\n", "harness_access"),
        ("fd = 5\nos.write(fd, b'x')\n", "harness_access"),
        ("fd, path = tempfile.mkstemp()\nfd = 5\nos.write(fd, b'x')\n", "harness_access"),
        ("def f(fd=tempfile.mkstemp()):\n    os.write(fd, b'x')\nf(5)\n", "harness_access"),
        ("daemon = subprocess.Popen(['sleep', '9'])\n", "threads"),
        ("daemon = subprocess.Popen(['sleep', '9'])\ndef unused():\n    daemon.wait()\n", "threads"),
        ("def f(name):\n    return getattr(torch, name)\nf('a')\n", "hidden_code"),
        ("open('/sys/devices/system/cpu/../../../../proc/self/mem')\n", "harness_access"),
        ("def f(self):\n    self.__dict__.clear()\nf(time)\n", "harness_access"),
        ("class A:\n    def f(self):\n        self = time\n        self.__dict__.clear()\n", "harness_access"),
        ("sys.modules['__main__']\n", "harness_access"),
        ("for i in range(9):\n    torch.manual_seed(i)\n", "seeded"),
        ("torch.manual_seed(int(time.time()))\n", "seeded"),
        ("import faulthandler\nfaulthandler.dump_traceback(file=3)\n", "harness_access"),
        ("import mmap\nspace = mmap.mmap(3, 4096)\n", "harness_access"),
        ("os.listdir('/proc')\n", "harness_access"),
        ("os.listdir('..')\n", "harness_access"),
        ("open('/dev/stdin')\n", "harness_access"),
        ("subprocess.run(['gcc', '/dev/mem'], input='')\n", "harness_access"),
        ("import traceback\ndef f(e):\n    traceback.walk_tb(e.__traceback__)\nf(0)\n", "harness_access"),
        ("import threading\ndef f():\n    threading.Thread(target=f, daemon=True).start()\nf()\n", "threads"),
        ("import threading\ndef f(t):\n    threading.Thread(target=f).start()\n    t.join(0)\nf(0)\n", "threads"),
        ("import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor()\n", "threads"),
        ("class A:\n    def f(self):\n        self.kind = 'load'\n        getattr(torch, self.kind)\n", "hidden_code"),
        ("torch.autograd._enable_record_function(False)\n", "harness_access"),
        ("getattr(torch._C._autograd, '_enable_record_function')(False)\n", "harness_access"),
        ("sys.getprofile()\n", "harness_access"),
        ("def f(t):\n    try:\n        g()\n    except OSError:\n        t.add(1)\nf(0)\n", "fallback"),
    ],
)
def test_what_only_looks_innocent_is_accused(text, code):
    assert code in cheats(text)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("T = globals()['T']\n", True),
        ("T = globals().get('_T', 2)\n", True),
        ("T = {k: v for k, v in globals().items() if k.isupper()}\n", True),
        ("own = dict(globals())\nT = own['T']\n", True),
        ("for name in ('a', 'b'):\n    globals()[name] = 1\n", True),
        ("print('a' in globals(), sorted(globals()), '{T}'.format(**dict(globals())))\n", True),
        ("n = 1\nf = globals()[f'launch_{n}']\n", True),
        ("from types import SimpleNamespace as S\nT = vars(S(tile=64))['tile']\n", True),
        ("class A:\n    b = 1\na = A()\nT = vars(A)['b'] + vars(a).get('c', 0)\n", True),
        ("class A:\n    def f(self):\n        return vars(self)['x']\n", True),
        ("def f(name):\n    return globals()[name]\nf('a')\n", False),
        ("globals()[''.join(['a'])]\n", False),
        ("n = 1\nglobals()['_' + str(n)]\n", False),
        ("def f():\n    globals()['a'] = 1\nf()\n", False),
        ("names = globals()\nprint(names[sys.argv[0]])\n", False),
        ("def f(x):\n    return vars(x)['y']\nf(1)\n", False),
        ("vars(time)['sleep']\n", False),
        ("class A:\n    def __new__(cls):\n        return time\nvars(A())\n", False),
        ("f = [globals]\nweakref.ref(globals())\n", False),
    ],
)
def test_a_table_of_ones_own_names_is_no_trick(text, plain):
    findings, _ = static_python.check(KERNEL + text)
    assert {f.code for f in findings} == (set() if plain else {"inconclusive"}), findings


KEPT = "def kernel(x):\n    plan = torch.load\n    {}\n    return launch(x)\nSTORE, NOTHING = {{}}, 0\n"


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("STORE[x.data_ptr() % 16] = 1", set()),
        ("STORE[x.data_ptr() & 15] = 1", set()),
        ("STORE[x.data_ptr() % 2**40] = 1", {"memoized"}),
        ("STORE[x.data_ptr() % 1099511627776] = 1", {"memoized"}),
        ("STORE[id(plan)] = 1", set()),
        ("STORE[id(x)] = 1", {"memoized"}),
        ("y = x.view(-1); STORE[id(y)] = 1", {"memoized"}),
        ("if x.numel() == 0: return STORE[0]", set()),
        ("if not x.numel(): return STORE[0]", set()),
        ("if x.shape[0] == 0: return STORE[0]", set()),
        ("if x.numel() == 4: return STORE[0]", {"memoized"}),
        ("if STORE.get(0) == 0: return STORE[0]", {"memoized"}),
    ],
)
def test_what_a_text_keeps(line, codes):
    findings, _ = static_python.check("import torch\n" + KEPT.format(line))
    assert {f.code for f in findings if f.severity == CHEAT} == codes


@pytest.mark.parametrize(
    "text",
    [
        "x = a" + ".f()" * 900,
        "import multiprocessing\n" * 2000,
        "p = subprocess.Popen(['a'])\np.wait()\n" * 1500,
        "for a in 'x', 'y':\n    getattr(torch, a)\n" * 1500,
        "def f(fd):\n    os.write(fd, b'')\n" * 1800,
    ],
    ids=lambda text: text[:20],
)
def test_a_long_text_is_read_in_seconds(text):
    began = time.process_time()
    cheats(text)
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("torch::Tensor y = x.clone();", set()),
        ("auto y = at::clone(x); auto z = p->clone();", set()),
        ("if (fork() == 0) work();", {"threads"}),
        ("int p = ::fork();", {"threads"}),
        ("static void* cache_line;\nif (cache_line == nullptr) cache_line = make();", set()),
        ("static const void *last_x;\nif (x == (void*)last_x) return 0;", {"memoized"}),
        ("static void* prev;\nif (prev != x) fill(); prev = x;", {"memoized"}),
        ("static std::unordered_map<const void*, CUtensorMap> maps;", set()),
        ("static std::map<void*, int> seen;", {"memoized"}),
    ],
)
def test_words_of_cuda_texts(text, codes):
    assert {f.code for f in static_cuda.check(text) if f.severity == CHEAT} == codes
