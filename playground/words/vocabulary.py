"""The words that the rules know: operations, attributes, types, and those that change nothing.

A word is looked up by its stem (STEMS), a phrase as a tuple of stems, the longest first. `dsl.functions` provides the
functions of each element, so a new one is known here at once by its name.
"""

from __future__ import annotations

from typing import Any

from dsl.functions import NAMED, TABLE

_SPELLINGS = {
    "layer": "layers", "channel": "channels channelled ch", "feature": "features feats", "row": "rows",
    "column": "columns cols col", "head": "heads", "group": "groups grouped", "image": "images picture pictures photo",
    "map": "maps", "token": "tokens", "sample": "samples example examples item items", "batch": "batches batched",
    "matrix": "matrices mat", "vector": "vectors", "tensor": "tensors array arrays", "dimension": "dimensions dim dims",
    "axis": "axes", "filter": "filters", "unit": "units neuron neurons", "class": "classes", "input": "inputs",
    "output": "outputs", "size": "sizes sized", "stride": "strides strided", "padding": "pad padded pads paddings",
    "dilation": "dilated dilations", "kernel": "kernels", "window": "windows", "volume": "volumes video videos",
    "sequence": "sequences seq seqs sentence sentences", "position": "positions", "expert": "experts",
    "norm": "normalization normalisation normalize normalise normalized normalised norms",
    "conv": "convolution convolutions convolutional convolve convolved convs", "pool": "pooling pooled pools",
    "matmul": "matmuls gemm gemms mm", "multiply": "multiplied multiplies multiplying multiplication",
    "divide": "divided dividing division", "add": "added adding addition adds", "subtract": "subtracted subtracting",
    "scale": "scaled scaling scales", "transpose": "transposed transposes", "negate": "negated negation negative",
    "sum": "summed summing sums summation", "mean": "average avg averaged averaging means",
    "max": "maximum", "min": "minimum", "clamp": "clamped clip clipped clipping clamping",
    "projection": "project projected projections projecting", "gate": "gated gates",
    "silu": "swish", "abs": "absolute", "exp": "exponential exponentiate", "log": "logarithm", "sqrt": "root",
    "learn": "learned learnt learnable trainable", "weight": "weights", "bias": "biases", "scalar": "scalars",
    "residual": "residuals", "length": "len long", "half": "halves", "product": "products", "one": "ones",
    "logits": "logit", "activation": "activations", "block": "blocks", "spatial": "spatially", "order": "ordered",
    "conv1d": "convolution1d", "conv2d": "convolution2d", "conv3d": "convolution3d", "attention": "attentions",
    "perceptron": "perceptrons", "depthwise": "channelwise", "elementwise": "pointwise", "float": "floats",
    "deconv": "deconvolution deconvolutional upconv", "triangle": "triangular", "outchannel": "outchannels",
}  # fmt: skip
STEMS = {word: stem for stem, words in _SPELLINGS.items() for word in words.split()}

Preset = tuple[str, dict[str, Any]]
OPERATIONS: dict[tuple[str, ...], Preset] = {}


def _stems(phrases: str) -> list[tuple[str, ...]]:
    """The keys of phrases that commas separate."""
    return [tuple(STEMS.get(w, w) for w in phrase.split()) for phrase in phrases.split(",")]


def _op(name: str, phrases: str, **preset: Any) -> None:
    OPERATIONS.update(dict.fromkeys(_stems(phrases), (name, preset)))


_op("linear", "linear,linear layer,linear projection,fully connected,fully connected layer,dense,dense layer,fc,"
    "fc layer,projection,linear transformation,linear transform,affine layer,nn linear")  # fmt: skip
_op("linear", "back,projection back,linear back,linear layer back", back=True)
_op("linear", "down projection,up projection")
_op("matmul", "matmul,mat mul,matrix multiply,matrix product,product,dot product,matmul product,mat mult,mv,"
    "matrix vector multiply,matrix vector product,matrix matrix multiply,multiply matrix,matrix matmul")  # fmt: skip
_op("matmul", "bmm,batch matmul,batch matrix multiply,batch matrix product,batch mat mul,batch multiply", batched=True)
_op("conv", "conv,conv layer")
for _n in (1, 2, 3):
    _op("conv", f"conv{_n}d,nn conv{_n}d", nd=_n)
    _op("conv", f"conv transpose{_n}d,convtranspose{_n}d,transpose conv{_n}d,deconv{_n}d", nd=_n, transposed=True)
    _op("max_pool", f"maxpool{_n}d,max pool{_n}d", nd=_n)
    _op("avg_pool", f"avgpool{_n}d,mean pool{_n}d", nd=_n)
    _op("batch_norm", f"batchnorm{_n}d,batch norm{_n}d", nd=_n)
    _op("instance_norm", f"instancenorm{_n}d,instance norm{_n}d", nd=_n)
_op("conv", "transpose conv,conv transpose,deconv,fractionally strided conv,convtranspose", transposed=True)
_op("conv", "depthwise conv", depthwise=True)
for _n in (1, 2, 3):
    _op("conv", f"depthwise conv{_n}d", nd=_n, depthwise=True)
_op("conv", "elementwise conv", kernel=(1,))
_op("conv", "group conv", grouped=True)
_op("separable", "depthwise separable conv,separable conv")
_op("layer_norm", "layer norm,layernorm,ln")
_op("rms_norm", "rms norm,rmsnorm,root mean square norm,rms layer norm")
_op("batch_norm", "batch norm,batchnorm,bn")
_op("group_norm", "group norm,groupnorm,gn")
_op("instance_norm", "instance norm,instancenorm")
_op("softmax", "softmax,soft max")
_op("log_softmax", "log softmax,logsoftmax")
_op("max_pool", "max pool,maxpool")
_op("avg_pool", "mean pool,avgpool")
_op("avg_pool", "global mean pool,global avgpool,adaptive mean pool,gap,global pool", whole=True)
_op("max_pool", "global max pool,global maxpool,adaptive max pool", whole=True)
_op("sum", "sum,sum up,add up,reduce sum")
_op("mean", "mean,reduce mean")
_op("max", "max,largest")
_op("min", "min,smallest")
_op("logsumexp", "logsumexp,log sum exp,log sum of exp")
_op("add", "add,plus,addition,shift")
_op("sub", "subtract,minus")
_op("mul", "multiply,times,scale,elementwise multiply,elementwise product,hadamard product")
_op("mul", "double,doubled", number=2.0)
_op("div", "divide")
_op("div", "halve,halved", number=2.0)
_op("neg", "negate,neg")
_op("residual", "residual,residual connection,skip connection,shortcut,shortcut connection,skip,residual add,identity")
_op("twice", "twice,two times")
_op("triu", "triu,upper triangle,upper triangle part")
_op("tril", "tril,lower triangle,lower triangle part")
_op("mlp", "mlp,multi layer perceptron,multilayer perceptron,perceptron,feed forward,feedforward,ffn,feed forward "
    "network,feedforward network,feed forward layer,feed forward block,feedforward block,mlp block")  # fmt: skip
for _gate in ("swiglu", "geglu", "reglu", "glu"):
    _fn = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "glu": "sigmoid"}[_gate]
    _op("gated", f"{_gate},{_gate} mlp,{_gate} feed forward,{_gate} feedforward,{_gate} ffn,{_gate} block,"
        f"{_gate} layer", fn=_fn)  # fmt: skip
_op("gated", "gate mlp,gate feed forward,gate linear unit", fn="silu")
_op("attention", "attention,self attention,multi head attention,multihead attention,multi head self attention,mha,"
    "attention block,self attention block,attention layer,self attention layer,multihead self attention,"
    "scale dot product attention,dot product attention")  # fmt: skip
_op("transformer", "transformer block,transformer layer,transformer,encoder layer,transformer encoder layer")
_op("flatten", "flatten,flattened")
_op("dropout", "dropout")
_FUNCTIONS = tuple(name for name in NAMED if name != "where")  # a choice has no word of its own
for _name in _FUNCTIONS:  # one word, and the same in words: leaky relu
    _op(_name, _name.replace("_", " "))
    _op(_name, _name)
_op("max", "max,largest")  # of dsl.functions too; the reading tells them apart by their number
_op("min", "min,smallest")
_op("gelu_tanh", "gelu tanh,tanh gelu,approximate gelu,fast gelu,gelu approximation")
_op("leaky_relu", "leakyrelu,lrelu")
_op("hardswish", "hard silu,hardsilu,h silu")
_op("hardsigmoid", "hard sigmoid")
_op("hardtanh", "hard tanh")
_op("hardtanh", "relu6", lo=0.0, hi=6.0)
_op("softplus", "soft plus")
_op("softsign", "soft sign")
_op("abs", "abs,abs value,absolute value,magnitude")
_op("sqrt", "sqrt,square root")
_op("square", "square,squared")
_op("relu", "rectified linear unit,rectifier")
_op("silu", "sigmoid linear unit")
_op("gelu", "gaussian error linear unit")
_op("exp", "exp,exponential function")
_op("log", "log,natural log")
_op("sigmoid", "logistic function,sigmoid function,sigmoid activation")
_op("erf", "error function")
_op("sin", "sine")
_op("cos", "cosine")
_op("floor", "round down")
FUNCTIONS = frozenset((*_FUNCTIONS, "neg", "square")) - {"max", "min"}
assert set(NAMED) <= set(TABLE)

# What a number belongs to: "stride 2", "64 channels". The longest phrase first.
NOUNS: dict[tuple[str, ...], str] = {}
for _kind, _phrases in {
    "batch": "batch,batch size,mini batch,mini batch size,minibatch,minibatch size,bs,sample,batch dimension",
    "channels": "channel,map channel",
    "in": "input channel,in channel,channel in,input feature,in feature,feature in,input dimension,input size,in,input,"
    "input unit,input width",
    "out": "output channel,out channel,channel out,output feature,out feature,feature out,output dimension,output size,"
    "out,output,output unit,filter,class,output width,outchannel,unit,logits",
    "features": "feature,width,model dimension,embedding dimension,embedding size,embedding,model size,d model,"
    "model width,feature dimension,dimension wide,wide",
    "hidden": "hidden size,hidden dimension,hidden,hidden feature,hidden unit,hidden layer,hidden width,ffn dimension",
    "intermediate": "intermediate size,intermediate dimension,intermediate,inner dimension,inner size,intermediate "
    "feature,feed forward size,expansion size",
    "expansion": "expansion,expansion factor,expand",
    "seq": "sequence length,seq length,length,context length,context,token,sequence,position,time step,timestep,points",
    "heads": "head,attention head",
    "head_dim": "head dimension,head size,dimension per head,head width,feature per head,dimension each",
    "kernel": "kernel,kernel size,filter size,window,window size,filter kernel,pool size",
    "stride": "stride",
    "padding": "padding,zero padding",
    "output_padding": "output padding",
    "dilation": "dilation,dilation rate",
    "groups": "group",
    "slope": "slope,negate slope",
    "alpha": "alpha",
    "m": "m",
    "n": "n",
    "k": "k",
    "rows": "row,vector",
    "cols": "column",
    "image": "image,feature map,image size,pixel,resolution,spatial size,volume,volume size,image resolution,map,"
    "spatial dimension,spatial resolution",
    "size": "size,shape,size input,input shape,input tensor,tensor,matrix,input matrix,data,shape input",
}.items():
    NOUNS |= dict.fromkeys(_stems(_phrases), _kind)
COUNTED_ONLY = frozenset((("in",), ("out",), ("m",), ("n",), ("k",), ("expand",)))  # before a number only with = or :

TYPES: dict[tuple[str, ...], str] = {}
for _dtype, _phrases in {
    "float16": "half,half precision,fp16,float16,f16,16 bit float,float 16",
    "bfloat16": "bf16,bfloat16,brain float,bfloat",
    "float32": "float32,fp32,f32,single precision,full precision,float 32,float",
}.items():
    TYPES |= dict.fromkeys(_stems(_phrases), _dtype)
OTHER_TYPES = frozenset(
    (
        "float64",
        "fp64",
        "f64",
        "double",
        "fp8",
        "float8",
        "e4m3",
        "e5m2",
        "int8",
        "int4",
        "fp4",
        "nvfp4",
        "mxfp8",
        "int32",
        "int64",
    )
)

# Attributes without a number.
FLAGS: dict[tuple[str, ...], tuple[str, Any]] = {}
for _flag, _value, _phrases in (
    ("bias", False, "no bias,without bias,bias false,bias free,bias off,without a bias"),
    ("bias", True, "with bias,with a bias,bias true,and bias,and a bias"),
    ("nd", 1, "1d"), ("nd", 2, "2d"), ("nd", 3, "3d"),
    ("depthwise", True, "depthwise"), ("transposed", True, "transpose,transposed"),
    ("batched", True, "batch"),
    ("t2", True, "second matrix transpose,b transpose,second operand transpose,second one transpose,transpose second "
     "matrix,second transpose"),
    ("t1", True, "first matrix transpose,a transpose,first operand transpose,first one transpose,transpose first "
     "matrix,first transpose"),
    ("padding", "same", "same padding,padding same"),
    ("padding", 0, "no padding,without padding,valid padding"),
    ("causal", True, "causal,causal mask,causally mask"),
    ("keepdim", True, "keepdim,keep dimension,keep the dimension,keeping the dimension,keep dimension true"),
    ("square", True, "square matrix"), ("learn", True, "learn,learn vector,learn scale,per channel,learn scalar"),
    ("layers2", True, "two layer,2 layer,two linear layer"), ("whole", True, "global"),
    ("approximate", True, "tanh approximation,approximate,approximation,approximate tanh"),
):  # fmt: skip
    FLAGS |= dict.fromkeys(_stems(_phrases), (_flag, _value))

# The axes of a reduction or a softmax.
AXES: dict[tuple[str, ...], Any] = {}
for _axis, _phrases in {
    "last": "last dimension,last axis,final dimension,final axis,innermost dimension,feature,feature dimension,"
    "row wise,rowwise,each row,per row,every row,hidden dimension,last,inner dimension",
    "columns": "column,column dimension",
    "first": "first dimension,first axis,batch,batch dimension,column wise,columnwise,each column,per column,"
    "every column,row",
    "channels": "channel,channel dimension,channel axis",
    "spatial": "spatial dimension,height and width,spatial axis,image,pixel,spatial position,space",
    "sequence": "sequence,sequence dimension,token,time,position,sequence axis",
    "all": "all,everything,all element,all dimension,whole tensor,all axis,all value,entire tensor,total",
}.items():
    AXES |= dict.fromkeys(_stems(_phrases), _axis)
BEFORE_AXES = frozenset(("over", "along", "across", "of"))
ALONE = frozenset((("row", "wise"), ("rowwise",), ("column", "wise"), ("columnwise",), ("each", "row"), ("per", "row"),
    ("each", "column"), ("per", "column"), ("every", "row"), ("every", "column"), ("all", "element"), ("total",),
    ("last", "dimension"), ("last", "axis"), ("first", "dimension"), ("first", "axis")))  # fmt: skip

# Words that change nothing beside those that are understood.
FILLER = frozenset(
    """a an the of with on to for in by and then is are be that which take takes apply applies applied compute computes
    calculate calculates please i we want need would like give us me it its my this these those using use uses make
    write build create do does perform run runs after before next finally first second last at end start from into as
    result results whose where each per over along across all both plus also let there have has having get gets return
    returns out through go goes followed following between them their input output layer module model pytorch torch nn
    f functional op operation operator fused fuse tensor matrix vector data value values element elements wise
    elementwise function activation block network size shape type dtype precision given called named set equal equals
    top one another other same single simple standard small typical normal usual plain side kernel feature
    head batch image map channel row column float number constant amount s t d ll m re ve can you how so will
    thing put sure just it's again some something be come comes was were kind neural deep learning gpu cpu fast
    optimise optimize dimension axis random gaussian unit weight x y w b a c q v scalar factor down up back connect
    term times sequence group sample connection connected flow feed fed pass passes passed passing final
    finish ending ends wide
    projection project work works shaped now but per-channel position token learn""".split()  # noqa: SIM905
)
STRONG = frozenset(("then", "followed", "afterwards", "next", "finally", "where", "subsequently", "after"))
