"""The names that the rules about Python texts look for."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Routines of torch and numpy that do a module's work.
CONTRACTIONS = _names(
    """
    matmul mm bmm mv addmm baddbmm addmv addbmm linear bilinear einsum tensordot dot inner outer vdot kron conv1d
    conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution scaled_dot_product_attention
    multi_head_attention_forward chain_matmul multi_dot
    """
)
COMPUTE = _names(
    """
    softmax log_softmax layer_norm batch_norm group_norm instance_norm rms_norm relu relu_ gelu silu sigmoid tanh
    elu selu mish softplus softsign hardswish hardsigmoid hardtanh leaky_relu clamp exp log sqrt rsqrt logsumexp
    erf sin cos floor round
    sum mean amax amin max min cumsum cumprod sort topk argmax argmin norm vector_norm maximum minimum where mul
    add sub div max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool2d
    cross_entropy mse_loss embedding interpolate dropout normalize std var prod
    """
)
HARNESS_CALLS = _names(
    """
    sys._getframe sys._current_frames sys.settrace sys.setprofile sys.addaudithook sys.exit inspect.stack
    inspect.currentframe inspect.getouterframes inspect.getinnerframes inspect.trace traceback.walk_stack
    traceback.extract_stack traceback.print_stack gc.get_objects gc.get_referrers gc.get_referents os.write os.dup
    os.dup2 os.fdopen os.read os.pread os.pwrite os.kill os._exit os.abort signal.signal signal.setitimer
    signal.alarm mmap.mmap fcntl.fcntl os.listdir os.scandir weakref.finalize atexit.register threading.settrace
    ctypes.pythonapi torch.load sys.getprofile threading.setprofile threading.getprofile
    threading.setprofile_all_threads sys.monitoring.use_tool_id sys.monitoring.set_events
    torch.autograd._enable_record_function torch.autograd._disable_profiler torch.autograd._toggle_collection_dynamic
    torch._C._autograd._enable_record_function torch._C._autograd._disable_profiler
    torch._C._autograd._toggle_collection_dynamic
    """
)
FRAMES = _names(
    """
    f_back f_locals f_globals f_builtins f_code gi_frame cr_frame tb_frame tb_next __globals__ __closure__
    __code__ __subclasses__ __traceback__ __builtins__ __dict__ _enable_record_function _disable_profiler
    _disable_profiler_legacy _toggle_collection_dynamic
    """
)
HIDDEN = _names(
    """
    builtins.exec builtins.eval builtins.compile builtins.__import__ marshal.loads pickle.loads pickle.load
    base64.b64decode zlib.decompress codecs.decode types.CodeType types.FunctionType binascii.unhexlify
    bytes.fromhex dill.loads cloudpickle.loads importlib.util.spec_from_file_location runpy.run_path
    importlib.machinery.SourceFileLoader zipimport.zipimporter
    """
)
THREADS = _names(
    """
    threading.Thread threading.Timer os.fork os.forkpty torch.jit.fork torch.jit._fork torch.futures.Future
    subprocess.Popen os.posix_spawn os.spawnv
    """
)
TIMERS = _names(
    """
    time.time time.perf_counter time.perf_counter_ns time.monotonic time.process_time time.sleep time.time_ns
    torch.cuda.Event timeit.timeit timeit.default_timer torch.utils.benchmark.Timer
    """
)
SEEDS = _names(
    """
    torch.manual_seed torch.cuda.manual_seed torch.cuda.manual_seed_all torch.seed torch.random.manual_seed
    random.seed numpy.random.seed numpy.random.default_rng torch.set_rng_state torch.random.fork_rng
    torch.cuda.set_rng_state
    """
)
PATHS = ("/proc/", "/proc", "/app", "/dev/", "/sys/", "/etc/", "/root", "/home")

# ATen operators as a profile names them: products, and what only moves or allocates.
ATEN_PRODUCTS = _names(
    """
    mm addmm bmm baddbmm mv addmv dot linear convolution _convolution mkldnn_linear conv1d conv2d conv3d matmul
    einsum _scaled_dot_product_flash_attention_for_cpu cudnn_convolution _scaled_dot_product_flash_attention
    _scaled_dot_product_efficient_attention _grouped_mm _int_mm _scaled_mm mkldnn_convolution
    convolution_overrideable
    """
)
ATEN_MOVES = _names(
    """
    empty empty_like empty_strided view reshape _unsafe_view t transpose permute copy_ clone detach contiguous
    as_strided expand squeeze unsqueeze alias slice select zeros zero_ new_empty zeros_like fill_ resize_
    lift_fresh unbind split cat stack _to_copy to _local_scalar_dense narrow empty_permuted full ones
    scalar_tensor item new_zeros resolve_conj resolve_neg numpy_T view_as reshape_as is_nonzero new_empty_strided
    unsafe_split flatten pin_memory is_pinned set_
    """
)

DEFAULTS = frozenset({"torch.set_default_dtype", "torch.use_deterministic_algorithms", "torch.set_default_device"})
PROCESS = frozenset({"sys.modules", "sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__", "ctypes.pythonapi"})
STREAMS = frozenset({"torch.cuda.Stream", "torch.cuda.ExternalStream", "torch.Stream"})
