"""HDF4 through VirtualiZarr's parser, whose decoder takes floats for what they are not.

The files were written by HDF4's own library (4.3, by pyhdf), and are here as it wrote them:
compressed, and as text. The values of each array are 0, 1, 2, ... in six rows, in floats a quarter
of that.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import intarsia
from intarsia.errors import FormatError, UnsupportedError, UnsupportedVariable
from tests.check import is_virtual
from tests.io.http_server import serving

VALUES = np.arange(42).reshape(6, 7)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path, NUMBERS)


def written(folder: Path, text: str) -> Path:
    path = folder / "a.hdf"
    path.write_bytes(zlib.decompress(base64.b85decode(text.replace("\n", ""))))
    return path


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("packed", VALUES.astype("i2")),
        ("f4", (VALUES / 4).astype("f4")),
        ("f8", VALUES / 4),
        ("little", VALUES.astype("i4")),
    ],
)
def test_numbers_have_their_byte_order(path: Path, name: str, expected: np.ndarray) -> None:
    ds = intarsia.open_dataset(path, mask_and_scale=False)
    assert is_virtual(ds, name)
    assert ds[name].dtype == expected.dtype
    np.testing.assert_array_equal(ds[name].values, expected)


def test_attributes_too(path: Path, tmp_path: Path) -> None:
    plain = intarsia.open_dataset(path, mask_and_scale=False).packed.attrs
    assert (plain["scale_factor"], plain["_FillValue"], plain["units"]) == (0.25, 5, "K")
    ds = intarsia.open_dataset(path, drop_variables="holes")
    expected = np.where(VALUES == 5, np.nan, VALUES / 4)
    np.testing.assert_array_equal(ds.packed.values, expected)
    ds.intarsia.save(tmp_path / "s.intarsia")
    again = intarsia.open_dataset(tmp_path / "s.intarsia")
    assert is_virtual(again, "packed")
    np.testing.assert_array_equal(again.packed.values, expected)
    assert "kerchunk's decoder of HDF4" in str(ds.intarsia.report())


def test_a_parser_that_is_given_is_mended_too(path: Path) -> None:
    from virtualizarr.parsers import HDF4Parser

    class Derived(HDF4Parser):
        pass

    for parser in (HDF4Parser(), Derived()):
        ds = intarsia.open_dataset(path, parser=parser)
        np.testing.assert_array_equal(ds.f8.values, VALUES / 4)
        with pytest.raises(UnsupportedVariable, match="never written"):
            ds.holes.load()


def test_for_others_the_decoder_does_what_it_did(path: Path, tmp_path: Path) -> None:
    from kerchunk.hdf4 import HDF4ToZarr

    intarsia.open_dataset(path)
    refs = HDF4ToZarr(str(path)).translate()
    assert json.loads(refs["f4/.zarray"])["dtype"] == "<f4"
    (tmp_path / "in").mkdir()
    HDF4ToZarr(str(written(tmp_path / "in", RUNS))).translate()


def test_what_was_never_written_is_refused(path: Path) -> None:
    """HDF4 gives 5 there, its fill value; the parser says 0."""
    ds = intarsia.open_dataset(path)
    assert ds.holes.shape == (6, 7)
    with pytest.raises(UnsupportedVariable, match=r"never written.*'holes' in .*a\.hdf"):
        ds.holes.load()


def test_floats_that_stand_for_missing_ones(tmp_path: Path) -> None:
    """The decoder tells the number as it is, and of what was never written a place past the end."""
    ds = intarsia.open_dataset(written(tmp_path, FILLS))
    assert ds.floats.dtype == "f4"
    expected = np.where(VALUES == 5, np.nan, VALUES / 4).astype("f4")
    np.testing.assert_array_equal(ds.floats.values, expected)
    assert ds.nothing.shape == (6, 7)
    with pytest.raises(UnsupportedVariable, match=r"never written.*'nothing' in .*a\.hdf"):
        ds.nothing.load()


def test_other_layouts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"a\.hdf; of HDF4 only deflated arrays of one or two"):
        intarsia.open_dataset(written(tmp_path, CONTIGUOUS))
    with pytest.raises(UnsupportedError, match=r"compressed by RLE: .*a\.hdf"):
        intarsia.open_dataset(written(tmp_path, RUNS))


def test_on_the_network_it_is_refused(path: Path) -> None:
    """The decoder would ask by a client of its own, which is told neither options nor pins."""
    with serving() as server:
        url = server.put("a.hdf", path.read_bytes())
        with pytest.raises(UnsupportedError, match="files of this machine only"):
            intarsia.open_dataset(url)
        assert len(server.requests) == 1


def test_without_its_decoder(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kerchunk.hdf4", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'intarsia\[formats\]' 'kerchunk'"):
        intarsia.open_dataset(path)


NUMBERS = """
c-rk;YiyI}6+XUwPMixVmyml51sWi6?A$X7F^~i{N-?ByV4LDga3Bx}O9Bciq5-Os7PUlB5H0<YqE(upEkRUMw<#!9
xop!m$R<sj)Q+yDv?|p`t94z)R`#6F$HoZ|qKrRG@AK)4A5NZg-sgS4i_=s4OEyh1&@YLRLk6Pw4PZZ9a)Qi6wl&}>
i_VY<@$=xz-Sb&v%jG!b>AVnp4o%kiB=AIVBX|q=ba3R__OTqfh-d7RT;@l?vk`|T<86sEXFs`!!$Za=5@-H3c&ha{
^UNghPWZGEWfh1|4e?#zE0Ajee@}9me-6G7emM7%_(VKwzW79LmQQ?w=ldj=c^mjF#4%R>A&E18jpvSd9QZ|vGrtU;
1)r?B!9L;5MpV!ynt1T1z(eqlc{p~8|3t*Eh<|7tRia0(V+D92e4?hKSo~uw#|z@0_5I=>`UU-xn*crtJ`-`~A4?o#
E%*vN4{`9SY>C596|ZL|{4-w)z70N8h}<j1=LE#h$oT+`d#dCngFhnY13b7B#3x?e0r82k+<U|)^qxJEi<+K;d_G`Y
jOAhf+pH((A)=MDz|Dv=p9B7=^$nT`-V8ns8k~14_lk!3KG94DzaW|^;Gc?y`RAfZC0dmy8q8zWcSXZ|xoFbBpA}6y
_;JxNe^WFW;Gc;mlc+91G|VT6CJTI-Xt3UOt)gMRMKn3!uZsrPS>10%!+c0IcA_VeL^BQCAsXgIqL~i9Su_uW?-vd8
gQA%Meo-_t!LNhILBsrC;0qAP+SiwX8xdz-q350;9OwE@a0BAZw}O`=o_AA#IM%hE=Tc4^Xg2sq?7=vobH1)qjhFa7
Q2!r32jB<C*30u+j5>2;>dZylBX#n@_eve+`=k!8W$&v}2j{Q%6nHV}IAZExoxE414(?kGnNo*&uGGPG)KDsQoZvN5
#}!k@g?N|L!Fo5Glse2$OC22lhF?h?T(1p(mh~wiTAd>6%sfrj8Dp;Y$~rS&E$fW6U;U!2GxI}Ir#!|_IpV(&KR7;X
OyY;RRs7&uTazt*D#7_0Uj+UgaK0}!@f|!;Q*p%=zt5cbZx6oTQS#F2TDv#Y-qF&w*<Ru(vabrYh5{WSyQ?JM{=Kc6
L-wMwe0!18RY79}?tV0niAjI^C4TGEZzX27Aj2}##0GP#BpUJ46#bngT9p6TGwDqKQ;&bw)o6Jq-qwvbp#C+xy?wK<
d~tLCPp4J9a%{#g-pi@^YQxVjIty-C6Q83SdWMtV+x0j2@c5=NOvOO+qi)%QNjS&Nq@bXnprD|jprD|jprD}eU?b9N
;Q#v9dkszgkiW@qS)8La<}Ew2(ERHI!QN;3DalR)QL!m1?hW*YdYgLJdHkMcPrwuMG<nwf&pl0fdkwpza&uJfS?dX+
c9OO{FCoE9X-@iB*O)00>NJ{)Ee>ATO&r<qYQUzowYRKm*-X}^^&5SifpuZh9%`m^-_q(@-{Pgqd`~QT%vbI#@)i4B
m1RY~5=tKSD`#}Fx+#m^<)GoM8?*j@kM7;NG4Hr8nYTA@EHY_NSQ%bWzrTMYcI)r|ne0vsR{8x@l%8eoUTx?}>aH;K
By^|c{r!^R?4<54OG+DknC;#{Ju95Be7-7a-iV$~xU4pYBg?%Tjc)aHtaPiV6Q@pm1qB5K1qB5K1qB5K1%(G3krsrs
C%PI>`vwR7Pj&Bl^{UA@uY!I=FaIgg-q<~Bo1v$z?>PgVJT>)lG|L*v>gXCA{NTE=r;5IqplM4q`&C2GU{5s!<L!q7
{-1o~&eG`Gx0C-6&5Vm?t_}FNT=7HGJ@|sn{rc`XwfP!tc|UE6uDpNUp0aSar+oBokN(5p;g1=H{gqy*Oy2D#_t3Mh
^Jz`hgNJGkKl$m<qsNx?|M;!GzW%-=pR_gZj5~GVXm0Yq+pnDU{UiPD4-U+I^JjlOJnwHWT_1cgy(4G)hc8WS+}`xg
fhimRa`Viw=i7E%`@!XJe)sj6{Z*!qvQr&*Z!sl}rNxAQbl;`L6dzr0TVy^-?;32~_7v)0wkLmD!P09tb2sg&sm`Bu
`oz(5@4x$5%jqY#->7)y%+7B!<8J$qP@Fz&{1{FvZXDU@RzoR)ZZ(t=)m5jUprD|jprD|jprD|j@PH%IaL~VBtAC~?
<oEkc!CLJZE$yn|%k4vFpWe0Op%T|@yDwvTB3(VAJs(X<j3gZl`2D?>V5R-AHE6MWwcr%H*AgtXd#!q*pp#DaY2T0L
B}MY;*82S(V|cJX(wC(}XM4_3K||bYx^TSBq|DozNv@)BH_26e?+*{%@q1q>|I_!rlA@oNN~ZCA?<+0Z(&58o8&gY$
TQ|w-{8ms<P*6}%P*6}%P*70#KSiY1z>i70=l8xC#{1W2DV07;+30;1lCL=#^atvsNh?M323og<Iw-C=urXBKvdKyD
_=%v?;ToQA(4Ss+OQ-QqhcjmSdROLN1Gq*VU{Z|k4g-v321TO|FeOGe&KVSsI>6Kz-8g4ZGU@>7F}iWipmfv$GGlb(
oI%;B17yeO#yNxXQ3uG4(T#Hk6{8L?Ek-xa8B~rsz{4@Rkpom+in;L^aMwU_{c~qL$im0!Yw9SmqbblD@-+vVI@{XG
y0EjeJ+?x$@5(uR$4QkYYb4+1t8Hm*)g9kCdzmB~WR|hXmaUsxIy>$%Y8aeik%dXDtFE(e3$(Wcf~_GwI{3FY&^|29
keXu9Eo%De@}n4KH}a!h`E>yM5Mnm#8`zGAH~e;kalm+qCemb@Nweq?{p+@~u^CC*5@^~OTFXbKeZ&DAmq&|zxX1j+
Zsf<h^6LQhA;hd<k5PB2I7{Y2laI|p#^#dy=1Fr8_f#0!jr=%QejUI*gxE+=8I(m1XbQ2#!&Ak5^OR;c5A#$M*^T`8
SbiPAK7`mvPdQ{K7c@oK5=d)p>FmTXBYmmsgCC(OyOAGt%dZ32hY-8-^)a1hPzjY%8I?m{fi0OV>)Tp!!@BLTPtYse
b<?jkKBM^z;v>ej=THGTshBEhVqxc|Ernf$kJm3>RI{qiv3_kcX^X3ChYj&x)Qrh$
"""

CONTIGUOUS = """
c-rljOHbQC6ot>&i5({)qy$2m0-f+`E781!LKp2SQ7By$sUcY)HbxjVAwZP?s>Fi-1IjNzutZ&!J^zKCnYxci6=K<i
uQlV(*Jth>k2fb_rUbr0#S8@CbVysqHB9midBeUy2#99MA^TkO4Ee1+K$yHq&QW8LPkoKzGhbtqFMUnq-VbUb%-=D;
f({%YmQrhtE6tPSwDBDV`87GoI#KdFa+w?>ACfC-$G>U@9B{w^2OMy~0snUl<(-tLLE?R_E?Zu&-#$E$%lWeW<aIr_
@5$2glKgOd;K_1jNtTPHH+XaiRyNroO!sBeT{(12F~l)~1V)j>6O18+aZDhMNo4R8Sv<oOrs?~hLn4P+%wZl2Si}pw
#4Fac{K_GYjNZL~)pEPXULTQNch9S}_ls~iGg-`+wA}Ougm#O6be5X)#or=^{fGvo2OC&_>Hg6G`qTwa<!AADqt=io
Zm;cbcRlrmd~UhDp}HcS6#6$=dWXuM`a|1db*D`=Zke;~0k3oBJH{0aYgiw>$u|xwh!gcOy`e3cdc{C1qnIch?SCnJ
EmYS(Zmg{~*PD&}=bc?x)mnXM)epGrC2#
"""

RUNS = """
c-rljPfrs;7{;I3ZFjqEEfut)2u#KDCu!PkL%>8&+7JT?AuaagWerPcY0<PmypVA9z!!n^Bfyc!4H7;DUqYW5S7{TY
969W4cJ{aLKJ&is&Rm|9IU?{KYD_=?PLuTU?HNq+IXQ({9ls{8+b4(s@mX@jKGvKkzp;CWlDEiNYAo`%K%@95(AeaQ
Kok2B3~FMG-!Q(2CLAD<Rcnn?%{g+$xP(D|O-?gUoV-FVlN00vva7oMoipT+Lk>CQkV6jnUNDqjQa%Q$_mw4C_dDIj
=N&m;D9ftf^1ZGvOY?cTytm`a@<Lvg-O?-EahQ5uSM?wcu_jo@WW6Z;mrZ}=&@&~F!~^=dA*AsT!x+IMJVpjjFp8&m
hA}+HI9=c*B(ivcDZE4u)0m+HoMT=~*AUDqxFVw2s(Y<Hzl+$Wx9wLNZ5Iw_2HisGPh+|{q5a~m&Qf#1?dx9I!~Yg2
{j-48r~69*=ra)9m0!t|wMtFyd!2^&spYFb<a^!g4CED=w9toU=?;}a4Q@l3Wc8#`HLe)5?H;dV#+$||Eo)S7y~!^Q
Gl+flGo68!OueF~m2nIeciUfzUyIcbtF^+`#wM(Hm8AjwPYS>u$N
"""

FILLS = """
c-rlkT}TvB6vxlZxHJ3Zx~}VDNHs!4#I~PeL4|CsYeZNnt%*@h+pMmRYweCA(HA`iz1TxY6!lQliujmC8oq=tg}y}PL-kTGM
Gp}b1a<E9s<R~~Jp{qr`TEV7|2^lPyBGFcmr%jM6p*$CH~?E0(xDv_ARs?RcEbj0e};S#?G^xgBeU~ASd)f9M0+dROQZtjcI
0i+2uR3RkZVw5MIK`s!Vj6ohWwRj>;R5cOhb4z(>RdZn8t~GifIU+Wtvjt2TbEao@E-suc&4i$`;04fHDAQHQF~r7v=-
bW}@fEDJPMA{50^$8p#*^mm{A>-im%a$oG(W^h5YQ^Iu``UxD_|%)b|))X)4A4l(~F$O-1Z5;@6o@gWZ)*OS?w_i3`pCYx-
s$tM424CKF_)Dz&^6;H@XHJ8uyX64#IL~d3!RmrPzxYjT4?#rrjq|Pr#Lg6j2!Y0uB9TE?t*alu!KB@7=6t_4Xv|f<$Jb1ox
;M2#~n<hQ}n73j7{5f;x&Gn&Z$J?vxUcA5D^x@*o`uw|VRkv>Y+fw_sxA#9E6&jnyMjWl#sk_qN!_J|#6W<5dKe|*EogA%8J
>}2MZu}-3ovr@D1~8Xi2`T7E5r~b$Hx8<3>KuqkMe9@ZU`;FCYCO{u0vq1Z7z%_J@}RCbT1GDFL~;*=49Swp@{a++%LcF-
bV~$SNd}Q+1K16^zsw-IYyhW0_iKRq8|*ik3t(9Y5ZiO0p#|(m5*baS(Ljpndd}EaSX^4hzRs3-
i`=i|GRiScB{PKYNhMd*jkCxcT?Qh}kW|*};>oUpJh8&&XV7MqM(`*|1^m**k7G3~;nHzoT`u5PH+m7%TCbw#$*dHOk8DHeh
<LnwG~7SP%;zr7%sYSaWM4#{SleS}-
X$_~;O@kOI|2)S^<q#d+pBkGvK_ytCeps_pff`HmgDZg6V!W71QlIZQr*#DI?#DM4dTvtqNw{%DRwSP
"""
