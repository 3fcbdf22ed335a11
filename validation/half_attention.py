import sys; sys.path.insert(0,'/work/main')
import numpy as np, time
from dataclasses import replace
from hierarchos.graph.binding import bind
from hierarchos.graph.ops.half import HalfAttention, HalfAttentionBackward
from hierarchos.kernels.attention_rule import AttentionRule
from hierarchos.kernels.half import to_bits, from_bits
from hierarchos.kernels.launch import Operand, row_major
from hierarchos.graph.profile import profile_of
from hierarchos.vulkan import open_device
import hierarchos.kernels.attention_half as ah
d=open_device("auto")
prof=replace(profile_of(d), device_class="gpu")
SMALL = d.info.software
def place(a,dt):
    b=d.allocate(a.nbytes,"x"); d.upload(b.address,a); keep.append(b); return b.address, Operand(a.shape,dt,row_major(a.shape))
def run(B,T,S,H,Hk,D,dt,segs,window=None,causal=True):
    global keep; keep=[]
    r=np.random.default_rng(0)
    mk=lambda *s: to_bits(r.standard_normal(s,np.float32),dt)
    q,k,v,do=mk(B,T,H,D),mk(B,S,Hk,D),mk(B,S,Hk,D),mk(B,T,H,D)
    rule=AttentionRule(D**-0.5,causal,window,segments=segs)
    opt={}
    extra=[]
    if segs:
        sq=np.sort(r.integers(0,3,(B,T)),1).astype(np.int32); sk=sq if T==S else np.sort(r.integers(0,3,(B,S)),1).astype(np.int32)
        opt=dict(segments_q=sq,segments_k=sk); extra=[(sq,"i32"),(sk,"i32")]
    f=HalfAttention(rule,format=dt)
    ins=[place(x,dt) for x in (q,k,v)]+[place(a,t) for a,t in extra]
    out=place(np.zeros((B,T,H,D),np.uint16),dt); lse=place(np.zeros((B,H,T),np.float32),"f32")
    low=f.lower([o for _,o in ins],[out[1],lse[1]],prof)
    names=[getattr(l.shader,"name",l.shader) for l in low.launches]
    ws=d.allocate(max(256,low.workspace),"w")
    print("fwd"); d.record(bind(low,ins,[out,lse],ws.address)).run(); print("fwd done", flush=True)
    get=lambda p,dt: from_bits(np.frombuffer(bytes(d.download(p[0],p[1].nbytes)),np.uint16).reshape(p[1].shape),dt) if dt!="f32" else np.frombuffer(bytes(d.download(p[0],p[1].nbytes)),np.float32).reshape(p[1].shape)
    from hierarchos.kernels.attention_reference import attention_reference, attention_backward_reference
    w=[from_bits(x,dt).astype(np.float64) for x in (q,k,v)]
    want=attention_reference(rule,*w,opt)
    got,gl=get(out,dt),get(lse,"f32")
    seen=np.abs(want[1])<1e30
    e1=np.abs(got-want[0]).max(); e2=np.abs(gl-want[1])[seen].max()
    b=HalfAttentionBackward(rule,format=dt)
    dop=place(do,dt)
    ins=ins[:3]+[out,lse,dop]+ins[3:]
    outs=[place(np.zeros(x.shape,np.uint16),dt) for x in (q,k,v)]
    low=b.lower([o for _,o in ins],[o for _,o in outs],prof)
    names+=[getattr(l.shader,"name",l.shader) for l in low.launches]
    ws=d.allocate(max(256,low.workspace),"w")
    d.record(bind(low,ins,outs,ws.address)).run()
    wb=attention_backward_reference(rule,*w,from_bits(to_bits(want[0].astype(np.float32),dt),dt).astype(np.float64),want[1],from_bits(do,dt).astype(np.float64),opt)
    es=[np.abs(get(p,dt)-x).max()/np.abs(x).max() for p,x in zip(outs,wb)]
    print((B,T,S,H,Hk,D,dt,segs,window,causal), "out %.1e lse %.1e"%(e1,e2), "dq dk dv", " ".join("%.1e"%e for e in es), names, flush=True)
if SMALL:
    ah.NARROW=ah.Block(1,16); ah.BACKWARD=ah.Block(1,16)
    ah.SUBGROUPS=2
    import dataclasses
    run(1,19,19,2,1,16,"f16",True)
    run(2,40,40,2,2,16,"f16",False)
    run(1,21,37,2,1,16,"f16",True,9)
else:
    for dt in ("f16","bf16"):
        run(1,19,19,2,1,64,dt,True); run(2,200,200,4,2,64,dt,True); run(1,130,257,2,1,64,dt,False); run(1,300,300,2,2,128,dt,True,50); run(1,70,70,2,2,32,dt,False,None,False)
