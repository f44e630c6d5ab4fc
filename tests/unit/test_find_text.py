"""find_text on what Tk, GTK 3 and Chromium really drew, and find_template."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest
from PIL import Image, ImageOps

from pytest_cua.errors import BadArgument
from pytest_cua.testing import Box, NotOnScreen, find_template, find_text
from pytest_cua.testing._find import MONO, SANS, _font_file


def screen(name: str) -> Image.Image:
    """A screen of 1280x800 that holds, at (100, 200), what a toolkit drew."""
    whole = Image.new("RGB", (1280, 800), "#808080")
    with Image.open(io.BytesIO(base64.b64decode(DRAWN[name]))) as drawn:
        whole.paste(drawn.convert("RGB"), (100, 200))
    return whole


# where the toolkit says that the label is: its middle
LABELS = [
    ("tk", "Save", 52, 15),
    ("tk", "Add line", 156, 15),
    ("tk", "Total", 245, 15),
    ("tk", "File", 369, 15),
    ("tk", "Quantity", 52, 58),
    ("tk", "Order", 155, 58),
    ("tk", "Customer", 245, 58),
    ("tk", "Cancel", 369, 58),
    ("chromium", "Quantity", 48, 18),
    ("chromium", "Order", 135, 18),
    ("chromium", "Customer", 238, 18),
    ("chromium", "Cancel", 326, 18),
    ("chromium", "OK", 29, 53),
    ("chromium", "Open", 136, 53),
    ("chromium", "Delete", 226, 53),
    ("chromium", "Invoice", 328, 53),
    ("gtk", "New", 41, 11),
    ("gtk", "New Window", 68, 35),
    ("gtk", "New From Template", 91, 60),
    ("gtk", "Open...", 49, 86),
    ("gtk", "Open Recent", 68, 111),
    ("gtk", "Save", 42, 137),
    ("gtk", "Shift+Ctrl+N", 251, 35),
    ("gtk", "Ctrl+O", 271, 86),
]


@pytest.mark.parametrize(("toolkit", "text", "x", "y"), LABELS, ids=[f"{row[0]} {row[1]}" for row in LABELS])
def test_finds_labels(toolkit: str, text: str, x: int, y: int) -> None:
    box = find_text(screen(toolkit), text)
    assert abs(box.center[0] - 100 - x) <= 12  # a check box stands before some
    assert abs(box.center[1] - 200 - y) <= 4
    assert box.score > 0.85


@pytest.mark.parametrize(
    ("toolkit", "text"),
    [
        ("tk", "Safe"),
        ("tk", "Totals"),
        ("tk", "Tota"),
        ("tk", "Orders"),
        ("tk", "Pile"),
        ("tk", "Fi1e"),
        ("tk", "cancel"),
        ("gtk", "Saved"),
        ("gtk", "New Windows"),
        ("gtk", "Reload"),
        ("gtk", "Open Rec"),
        ("gtk", "Ctrl+M"),
        ("chromium", "Quality"),
        ("chromium", "Costumer"),
        ("chromium", "Open order"),
        ("chromium", "delete"),
    ],
)
def test_does_not_find_other_texts(toolkit: str, text: str) -> None:
    with pytest.raises(NotOnScreen, match="is not on the screen") as caught:
        find_text(screen(toolkit), text)
    assert caught.value.best is None or caught.value.best.score < 0.8


def test_light_on_dark_is_the_same() -> None:
    image = screen("gtk")
    assert find_text(ImageOps.invert(image), "New Window") == find_text(image, "New Window")


def test_several_are_counted_in_reading_order() -> None:
    image = screen("tk")
    image.paste(image.crop((100, 200, 540, 274)), (700, 201))
    image.paste(image.crop((100, 200, 540, 274)), (100, 500))
    places = [find_text(image, "Cancel", nth=number) for number in range(3)]
    assert [place.x - places[0].x for place in places] == [0, 600, 0]
    assert [place.y - places[0].y for place in places] == [0, 1, 300]
    with pytest.raises(NotOnScreen, match=r"'Cancel' is on the screen 3 times only, and number 3 \(from 0\)"):
        find_text(image, "Cancel", nth=3)


def test_within_a_part_of_the_screen() -> None:
    image = screen("tk")
    place = find_text(image, "Order")
    around = Box(place.x - 20, place.y - 10, place.width + 40, place.height + 20)
    assert find_text(image, "Order", within=around) == place
    assert find_text(image, "Order", within=(100, 200, 540, 274)) == place
    with pytest.raises(NotOnScreen):
        find_text(image, "Order", within=(100, 200, place.x - 10, 274))
    with pytest.raises(BadArgument, match="outside the picture"):
        find_text(image, "Order", within=(1280, 0, 1300, 10))


def test_weight() -> None:
    image = screen("tk")
    assert find_text(image, "Quantity", bold=True) == find_text(image, "Quantity")
    with pytest.raises(NotOnScreen):
        find_text(image, "Quantity", bold=False)


def test_sizes() -> None:
    image = screen("heading")
    place = find_text(image, "Order entry", bold=True)
    assert find_text(image, "Order entry", sizes=[20]) == place
    with pytest.raises(NotOnScreen):
        find_text(image, "Order entry", sizes=[16, 18])


def test_monospace_is_tried_when_the_usual_font_is_not_there() -> None:
    image = screen("mono")
    place = find_text(image, "mono text here")
    assert place.x == pytest.approx(155, abs=1)
    with pytest.raises(NotOnScreen):
        find_text(image, "mono text here", font=SANS)
    assert find_text(image, "mono text here", font=_font_file(MONO, False)) == place
    assert find_text(image, "text", font=MONO).x > place.x + 30
    assert find_text(image, "Needle").x == 109


def test_whole_words_of_a_longer_text() -> None:
    image = screen("tk")
    place = find_text(image, "Add line")
    assert find_text(image, "Add").x == place.x
    assert find_text(image, "line").x > place.x + 20


def test_texts_at_the_edges() -> None:
    image = screen("tk")
    place = find_text(image, "Customer")
    tight = image.crop((place.x, place.y, place.x + place.width, place.y + place.height))
    assert (find_text(tight, "Customer").x, find_text(tight, "Customer").y) == (0, 0)


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_text_is_no_text(text: str) -> None:
    with pytest.raises(BadArgument, match="empty"):
        find_text(screen("tk"), text)


def test_the_message_names_the_best_score() -> None:
    with pytest.raises(
        NotOnScreen, match=r"the best place, at \(\d+, \d+\), fits with 0\.\d\d, less than the threshold of 1$"
    ):
        find_text(screen("tk"), "File", threshold=1)
    with pytest.raises(
        NotOnScreen, match="'Fi1e' is not on the screen: nothing on it has its width between background"
    ):
        find_text(screen("tk"), "Fi1e")


# ---------------------------------------------------------------------------------------------------------- pictures
def test_template_is_found_where_it_is(tmp_path: Path) -> None:
    image = screen("gtk")
    template = image.crop((130, 260, 190, 290))
    template.save(tmp_path / "icon.png")
    expected = Box(130, 260, 60, 30, 1.0)
    assert find_template(image, template) == expected
    assert find_template(image, tmp_path / "icon.png") == expected
    assert find_template(image, str(tmp_path / "icon.png"), within=(100, 200, 400, 340)) == expected


def test_template_within_the_tolerance() -> None:
    image = screen("gtk")
    template = image.crop((130, 260, 190, 290))
    brighter = image.point(lambda level: min(255, level + 10))
    assert find_template(brighter, template).score == 1
    with pytest.raises(NotOnScreen) as caught:
        find_template(brighter, template, tolerance=5)
    assert caught.value.best is not None and caught.value.best.score < 1


def test_template_that_differs_in_one_pixel_is_not_there() -> None:
    image = screen("gtk")
    template = image.crop((130, 260, 190, 290))
    image.putpixel((133, 262), (255, 0, 0))
    with pytest.raises(NotOnScreen, match=r"the best place, at \(130, 260\), fits with 1\.00") as caught:
        find_template(image, template)
    assert caught.value.best is not None and caught.value.best.score == 1 - 1 / 1800


def test_transparent_pixels_match_anything() -> None:
    image = screen("gtk")
    template = image.crop((130, 260, 190, 290)).convert("RGBA")
    template.putpixel((3, 2), (1, 2, 3, 0))
    image.putpixel((133, 262), (255, 0, 0))
    assert find_template(image, template).x == 130
    with pytest.raises(BadArgument, match="transparent"):
        find_template(image, Image.new("RGBA", (9, 9)))


def test_templates_are_counted() -> None:
    image = screen("gtk")
    template = image.crop((130, 260, 190, 290))
    image.paste(template, (900, 20))
    assert [find_template(image, template, nth=number).x for number in (0, 1)] == [900, 130]
    with pytest.raises(NotOnScreen, match="2 times only"):
        find_template(image, template, nth=2)


def test_template_larger_than_the_screen() -> None:
    with pytest.raises(NotOnScreen, match="larger"):
        find_template(Image.new("RGB", (10, 10)), Image.new("RGB", (11, 5)))


# what Tk 8.6, GTK 3 (mousepad's menu) and Chromium 150 drew under Xvfb, without hinting, as WebP
DRAWN = {
    "tk": """
UklGRoYIAABXRUJQVlA4THkIAAAvt0ESAIUH/P9XN+3/7xlSpLi7u7tlK8VeVUgNqwZ3v9wpnRTnqo+Ltjh01GWUYhWsJSykluaxvd/vubv7cr1Pznml
5JxMkYj+Q3DbyJHEujS3qbo23c0u/AD8vSyL3PVXHuStiEe1MXvVo/1M2YlpRuUy39DzRCZwGuBdQGSCzNxCJeVfawd3OZTSG9aqkgxU4bK6N+rTQr1P
sZJpJM9UHacB3gVM1clMa5FUCsfFaL7bGUoWwSmLmJaslSUZqML1YeVAZrpiTRuhKnhY1Sa5N7y9vRO/FY7nwaFPdSCc3VdS4yqEMqPapHwVdBTiStc9
O3lDJXB8ldW+PcCZ6WODrslMXz9p2BJxv89MOfZ/kgb4wqOAHQmHXNhLgGSp9v/1sW9F5/TcnfL02Ywd+Pi/eXl+KzJfvZvo5YA0EFV4lJV0jgr90m5c
vtj6tdGR/TyAHLoCmFpHIMZ5RXRI40J57WlbE97WJNjuvO3IkPY6aQM2NzRd2YF5qkxIlyqT6J+TX6h6z5ute+PewYPTk0/uPfjfEkfEHyhnjsp0qg21
9k6EuK7RbWDgCuClBvfNHXYAYKHyGrQI+rrHAFOL3cCd+jppA7YNBjB8BaRLlYfHV8cY034Vx90Is8xyPCq1Wj1eijNHhZ6s+szaobQJuLfKdfAgehnY
0dEMDy0Kae6GDRtcxsoqj/IAdw/gCl0BMEInbcC2+QLfGZylykNnWcAYK74qEXC6DK9ZVjueEfn5+YVSnDkq+P9GbTNgyISEtDQ6A5TVPaWvl4w0mrdK
qHBZzVVrNJpudUuRSbcEz+qkDdi2XODvz1mqPJZZggWXb0mY7+1audKywcE3OHNUsC31TMV0Dci2grvfng41KFMlyH6y6pYzwoVqvQN61UmgpoNO2kBt
cZYqD1/LdsYYUhkrTWMsyBLG2FKHx5mjIhkDXq5EXjcXGNQv4v4zIgnO/ZYD0HbPBy6dl1OM+jYA6PoBbJQBm1Q6aQO1xVmqTEcpRgA79NtCxnIqZml9
fz3E/AwOjzNHRapyrV/HmSbdBHY4tW8cLmJqTVcAGP3VrRu1OCSnyS6wSqMMFPWt32LiBB0kDdQWZ6kymV3569ffH2aMza35yRIU/8sn30U7PM4cFbpR
efWSAQCgzzPAVt3PKaxRzH5Rc34hrwF+1Wqp8u0XDV7szTjlt8jHAfaLct828nBz/Pv2OsTjMP6+vY/sEQ0RMhf+ttVT/z0GzqL8+gv78qzSK+LRZEw5
9Wi7gqQTxXa0ZUG0MpjSj2eabYpMkIvbom3LtX8szHmJGUZ7iUyQz6neRESjLz28TWNnAkAfChT1ILekDk36Nup61papOplsfu/ntz/54WJtXIy2J0Vl
SuFkt3o92zkvspOpOtmcVlNjz0lqanr9oc2k/laHd50R9SCzFPXCKpTPrp+rCGt+yfJhbMmd2tCnOgjbe6hSnEINQM4UpetNzpeBOCItsCAwDtgTuBOI
mjlh1JRtFcDawEPHp7g+D6zrSc0DAzOtjUh72BO4S7AjcK8MRg0SHavzFGBHwj7XxeKUKW4Ak6Qf+6h83U10IsaSNzDGovcyNjf3QVmqnzhXSpoyxeJ3
Hbh/e41btKFwgdWGG8bcMHE7ZSkKM2qQWXQiTkKXjbws7RjPo9LxyqqAaBYADKLGNWhOS4BJ5AJonDp2JHIF+lBHFREdQn+yVrR1Q9rDQWqgh9GZIu1P
rwoHAKypVwVNJ9cX4yUpU9wAJnE/duH/O+dR+L+xgtJU5vVp/s7ns0LEuVLSlClm+KA48sb3eQWRdz/xYiz8xzN7s78LtrZTdmi3YvCGaiOhi5uXtU+t
i967kDNeOSURbbPyIyoTLJe4YAQOEF0ROCUUdCCGIk/qdeWK0UraQ1Vr2oUoamS0vyxKEjlEhdD0MUOaMsUNYBL3YxdLLVttm2uZKdngp0wZzIx5fVfG
mN/v65jbx3GMsVtZgjfclLaRLRkqL6GLl5dlarEKADjjldkWSUCjkSvDZ2C3DkQnBZMBTxoqei6VHIXTw0rqBw+aCfvLpuMi+6kImlBAmjLFD2DShMJO
lli22+b59lsn17hb8VOmDKmMsbcSGWNfRrAQS3piYuL9ckEWU5ocOi7GSeji5WXlUp4VZ7xyuk7kL74ZtIVgKTBOUNSY+gROI0oU3zy0NKiWbjnRKWdK
kYFBvV1kubNJFJEiTZniBzBpltuLz2/xtjG/eP1Pb8wR8FOmDOcEb8QLPn+erbSknRYqytqO4hjUO8Q4CV28HJhsKrTijFfWowym+qlAONESoAv5oLSR
4DBRCaJsCaYeEpweMJ06UE9ZTubSwwSgoo03RKQpU7wAJnti997xsPJirCJZ8Lb4j1f/D06y0jReypRNAb/vYtZSJEzobgKASogTuviMdeKsOOOVVboz
OQ3tQ9TnAeBJdSZ1UAnOErE1rWzZQTRUU2rF6QEpRLRJFnnO2tsomdL0mvh2IU2Z4gUw2dXC70vCmMdWE2Np//Nzi/8tlYVucmMBH8WKcqXcJClTNrFr
78xnbME6ZXqlocc1mJKGSxK6+DCrxxWYLnLGKyvkuKiJyE0PoKArqQJcyAUIVVGzLbYY3JoQFVtxegAGk/q2PP/vpw1WNVaNzIWYNGWKF8BkV2xpxe/f
//JxLGNz3vjlh8J7qWzZFz9+8FOxlzhXSpIyZZv2ym+ff/9VpDIhe4yqkVOHnZKELhtedVe1bjCNM155AcbLOup6BwBMV6TXfmleJexSOpoq237RWzk2
bmjm/EJ5ApiYqAIWzxJdgLsuiIkqaFGArZSpWpXfkmB33v/7SsuUKsu9XeuELpTm3OHkTClgf7ZZS4MeQIY66FNflfIX/3UIc0VFjRxmUtvwv2+vHz2y
4e/b+8geSRCh+MK/CAUA
""",
    "gtk": """
UklGRkALAABXRUJQVlA4TDQLAAAvLcElAIXHa/8fpdm27X+a9N6Obo7ej4Ojp52Jx7E8zTrX2FZM1zQriqDRiI00O5YU2yFWLCTGiFGMxgMriTQVYfis
Bb/fDI44ePaI/ktw20iSJMZc2dNT8Jxb1UbuA9j/DJ8zcWvpoTHNp6o2dIm7WVlXqopjr12glakE5Ny/7KNQieQZhn26DCFLfF1lSkLyHTVboRCWFku4
21LqU6QRy6BbRTl3uyKDZS9nsOz53DMsq7oQEtyuiSYOd0lbeOMqm3j2giKB1nSOdLfpqpjaWsdJ8kVjp7WJVSxFs1po2HPeq6FAbHMGGSDzUVWJmq0q
rdGkCVPnV4rqwrLaL2qqhmUvL6fELGewwyY9W/iaDQUSWhLJBOSiShvDsgE405AsJvbRTLRPIjS5uXkzpexQXeyyYoFt7w4JElsuC7jJkhSlpaXNFaWl
t/zYm9poMZ1x3PFRoM8/+Wz1qGqStV2fKwkN92xJFpBJSZTL5c0qufwGIfaRXExs1ZteA3sF1CeU6m5pYvsacZENCVN9lxDFlmeRAlqwrKK+REyxr10G
ln0xco5lMy6wUQ5XDnvXNc2GBlebc2PZ6PSbrKY4ejWi6xrFxN6Bz/lBt2Vp7grLPnHHsQnQsaHiqbr5UVNFInu5uunhKrDyFpGU8gzLsuduXAhNV1gX
YtmgmXSeYf/HwWBjNR3/dWHeIWjKtd45XCSny2/RJgqnay2pwocAFOUF7sE5AC/CWwBk5+KoWtAu/XrlaivJ1TS7UNRPutsNONWK/HGLoGVfwHtdLvAF
utstoL10BkBvl0gimVMAzkcFrmvTApC/+wyAd4vw5wvJUK4emTZq7TxMc4C+xAtNL2VoBQDgyC0xTo1UNUDTy0cgWUXSfQAPtGKJ2N5NWai+/RSYeQK8
0TkBvQUAXNsbgD+Sw4AJxogBM2CYGtM8dAMYLa53+Znva0YE8q6L18njAAAfS5+RA6asmKm+O/Zc/WhsgpBqJVTlcQBgnyMCmW2WvmlaqpVUnjohpsRr
P5Ge7Q+/+G4q+vZyyGe0sG5+BQA4cg3cHvOBv1B2gCMWsvBv4sPCgYZtUTFHd+jRuj0ydruGP+964EnpopSp63JKiR/U3vyc2oKsotoGXq6UpyCmnwhU
dD+v5rmwhsYSUb3e0+Dn/eYWMLtn2L37CU4dicfjMBAU32DwMCIrEXcaJJkb05tNnrACoJjRew6rgLpdFt6862Lak3PrBld8ijnYki3Er3WzFsQvOq/p
JDMAgApUpHYDAXDKR8SErC84HzOj1bW2fnEfv+es7O59HwnnSN2brIVnUBiPD0ooNwG80/qSsQJ2Rj/OzALe3c28edfHzHWUp+XaUdQJQGUS0nvv3r1k
zb17zTAnzQpohx9vMj+053Nich6q9OllYv3ThIJjehneeflpLUC+ozGiAoNhk8wLigZAWGP/Zi+ALfp+xgUgrII377oZu7KRvEvOiBDzwMBASvfAwBjs
SSMC+gm8yQiurAExoSgsLgp/MdQnZNyelIrYdGYeIN9xdf8EuD2Kg14B08wkMMXoZ5lRYHFbJ1/e9XTw6gDc6RFYoKCc4PUFIgW0AHqz68TkCtsVBfzt
xAJgsMB7cFcHKnZ9CYpi77sAft/7DwjAb7EcF8/ocey0GzcOu3jzrosP+9MK/CXvDUBNHSfgVYrOBc+zNn+g1fDkpIsJlYzPm4jtH+35dBJgty9jirlG
0zPRAPIYjSDThwffTt+lx6tv9hwM6wdP3vVh5V5KRkZqozcAM+oUJT9MFKRkpWjMRKBVwEASP7HGarJAeO7zDwSGG3sDYswTHNbfeBYWRPtknZaVdXR9
Osg/G63HPv4/pnmHVPEqg6r1hSrcN3Gr5A6nZnI1BArj9jFJwZBPQdL6IvKXsrKyulXifMmOflFWVmYVza9F0oLJ8guC1pcUDwAwTJk0z4iClwgxWtLA
oU3zHPRcOkElF45lmBourneTlnUa7Sww/OUlXTeZUiIwaQCCoPXlJzv5aUwNVfBCdurb+IMJF0+x29r50MkFY8mOf5Pw0W8cIfpkQuS+Ptw9JItNpFJK
AvIpCFpf0ttHjx6thezLZdAFL2Q/eqDbJAeuRvDhSS4US/bJMqwHtAQXgLwTxIInpRQgn9a+9aUc0Wq1o5BlATwFrywXmGOGgYqv+fAkF4olSwcQf5bg
rk+/HPEOgSelVFAiCFpfgYUGoAteIsQbxgxoP+PDk1wolqwAQHIE4cTPJbWKXQSelBJBCax96xsAuuANFE9yQQkATif6mZkFoNznSCF4UkoDJYC1b30D
QBe8geJJLmj/GJ5u7fezbNJj9jOfmHg3T0oJQD2veesbCLrgDRRPckGXP/poawaIhWLbJ+8pfYa+2fY2/XlKx1nxGrW+qx7zBLfq5MJFsUzjGVvgyTW2
IvR5StQV11pMEBXFMs3G6mr+/OON1iNF/znLvLGa6o3W4r/yOF1rypL0zcfhTaGE+DuU4WwuyC0bFcvMB8dan93akROKiLZD2Z59d2y6O61DJKe/cAOo
2vyCKrPpppveiSzlRNuhXJnPAXiWPCcKx+ZSAODeT6XLbKrppnciSzkxdijzJuNUf4riGWMAAJyMoMtsuummdyJLODF2KPMnu18uCgNjJBulU3SZTTfd
9E5kaSfGDmWeZBX3RTHDNBC+vkCX2QJNN8IapZ0YO5R5khU8FOcu3/ydPHQTXWbTTXcIINoOZXUFeehRcXRsvrUC05cnOLrMpptuHhVyULdLLdF2KI+n
dHOwqO96RTorbv1k5zvbzznpMpun6eaRKAN9u8SOaDuUYcpNU6Y+cIl3xTVtWgTAW2ZbTRaJvMIKnh3KNn8ycQhU/xugq3ne6v/8443WI0X/d49XGYSt
ryo8/HTSSzG0j0kxRukXXK1v5BFt2R87xXj6tUiSMVl+QdX6RsYDnrdv8oWCVVvU5BTMSG49lmJMml8wtb6R8QAOy8ETyrDvt4ST2YIZya3HkoxJAxBM
rW9khPFJ0vYh0KG4L64B4IQzEgtpxqQBQdL6kna+t4fRAnSoScYMAMIZpZwSCJLWl15w2ftnQYcyMMt+whklnBLAGre+wuD98SzoUBZmyC+AjEcKJZoS
ANa49Q0AWre84gn19+M2LE0EkDEm3i3JlACANW59A4Gf43lCWU5s+2j3feGMxNZjyT4rDsLWVyDUvMkRFA2xhO9QlmkEeuCNztU83foG4/+c/X/ydygD
K561s9Jxp+Be60pI454w6AcmPVhYpD2dFODxBXsy5hFHdbFp5kWdI5Rx6Q3zNsvzURjMwuY4AMBgn8U+b3SJYkU+QX3nxw1DDuD1DACY7cDS0JPp0GCo
x0scztk3+noBNtei2U5rWyJe6xbEW3gyekj1FU3abDNGsz2AM3MOM9mVjXm6UMCjo37Wpjr7jaPoH+gxzgrx6iZFvLlbXvDIuAJ4APSUgcsZAfo0QEkv
4FDOhwD2VhuIIRf9fRwgBBM6/fAsJ9aHzXdXZant4IbbGqtzgZZqoKQfNrlxfPxl0UAIYGt1CJiAH7nrttUwMDAGwPFqsE3vEu9AjtwWlN8zDHcogblM
52zmIszy+ge+MYWCe7ZaBExRbDMzM7rJmZnXVLxOk4jneVW1NvkSMKgEoOlv0QJWuQWhYvroHujpX6QAFuTBh0TharcBZqXBKZ+Eo9CvvzjHBKC8fAmY
coYCVt24B96ZcRiHvQHyvFwGrO1mcQ5UlqnKVrR40ZlZkNflt5h5kwOwVK1QqwqtIeHVQp+uU/fEBkefrisw3ICuo0NngkgLz4KVA4Dl1xx4hgyyGDpO
jJ0cVjfc0pJ3o3U1/7+8dAA=
""",
    "chromium": """
UklGRr4KAABXRUJQVlA4TLEKAAAvp0ERAIUF+v/XK82+Zz2OQ9fxF7s71kn82Hgou7sVwZ51JsIGzHpmze4r2O1sBewOMK5FhyCMn8Cl43PO7/+7f+De
/zWejOi/BEeSFEmyWBrOXryrmvgA/g2VK7YQwDYOR7/H9nSIyga+A1W2cTi2fGz6P/z/umJYNlkHWWZ4DmbYznWR7QbbxHSWp51lXCdZ9vxrsl5Mtpob
0c8i51Oe6gq3je8ScqkS3Dpam1vInqgzOyZV0sQxepG9M2DA1FWpFlRnhc49ntHVY8yDqkt3vG0dhxvUHjS1I/VJ1xv/1LxL+yLvI7By7l/VidA2302Y
Nc65gelpIdXpw34+jevdqIokiuI8Y3os31Lf8jKqf54OYP8bA3SmhyllOGOM/a5r55WReQDKFmQ/LUyqe5vzVBdnTfH7w9NlN85kSaQprGIsXQcAjKYo
wCcoskv1Hdjf/u0u5yV5Po2qtd0qLO8eN8xhrCUdwjRmlhBjB2HpdcbcQhOKU0+MYZH5uUbjVsYm3y/Mud5fCN8+I8p0dVynXUmmI+5Cp/CM4qQFwjSj
7+6kpEpzb5sLsySHeDT6ISBHmL7w0pCmHa6rznVp3W50pHCqU9P2o5/oX+ab87nIKTrBe00WGofxi/Ud69ov5jysYfeG1T9L4N70lePCR3Q1urWdo+PR
mgah9yBLaf2t2TS0CPiqQctl626fesll14KPawuln70XsteHNgOT7ZsF7zxoSUlxzNwKdBZ25jG2qyA0eOW5APZz0n1/f182vjRu/pqcrE6MxWWmrlhh
Sj99fu5BhDLmlpC3bU44FjL2O9JOzF1VWX8rQTC3w3fjibmfDRW8v3HesNu5dQFw2KHb9oMz/gAOKgP3hn7rVqJ7l+iM9AB2SzQkP+Z8S7UEHkYGntJi
nvxGkN/88iPn8XYnLOXVvjJOvsJbGQDcGuQDh0lY9uYtAJM/KcNk2mfhE2UXKuX+6QpOXMvpwti48u1CUR/GluAMYywqgbE1JX6MsQM5PwkHq3DikrIR
FeS4Ei+0yQLuK3tQ/FWXEmmc4q98AaQ3Wa97xylaUuc3DTwlzH/6W+E87EPOuc+QCt19NZqHtOYWUkA+shLqJ7hAsJ8JAPWE7m0jRBZQDCa/VGJZ3giv
lMjCnd01FR5gjLF7t4VbjDFf/CnsymfscpK/iAEjhIAqCFd2aymIWDk/WIkUBgBAs0W4oxyE5I6y4pyI+wTdi6H9qpSX1mo4V7uD3/R3dvCwxsKEXhXi
XcbzpgstdrbiKYujmUIvIYtWqpyFz0nOSUz+2NJXeXKzUvpcKkLcElcz3bBBdSZDOC8MxVxhcxljCZAzQ/CrggfKEq1/yrRsM3huiLJL8FN9OgtHlJuy
I4qc3vq/imNP1Vy7BD54nPBBGO8/jvP017Qkm9sq2ffhXvtki3H+OF8SRmFCXwAlL/2hai/8w1Xjk1DT0u4V9TC3FN2E/QJj7nOOIdSMe/lW6W4SK+GW
kckRfKugtE4HrX8U+wKIqcBZ5bzZ72XzAfTvxGsTUzKX2s/jfNa3mTyQwnifH9P/9iUt3G637Fj1GC7SrPYwbjHbaY6qqHX9HDNo21fItBMCqyVbzVzs
kbgPYoGYJBgljDGjkbGoaMYYSzMKXXLPV8Ku4oEWgUDlpCS9ELVXCBsr8FhZIMttFGAz/78+/XX12rSacx7fuk2DHg3FzRp/UrNXXU2/vUITVJneRDs4
n0VnLfj/6ykUEpN3+fsPLsDc+pcOoKzvG0Ju3S8O5RQd+Nka2A4cGdNpypbEuayT6eHIoQdLhf1zvJhf7k7GDplC/H3ZYhzv43e/bGwldM6KD+7iGXKw
yooG1jck5J4K/iwbTs5nSm99UQEEN45E1l87gTW15z8sT1gWaQM4j9n07hguknXmWJb0f4SIcF6lBH/FLQi7WxPZdUqGhvLJRO+O/6kjgJjviej9MVbB
ZsaWAflbvBibVYiSC4eFBwDKTnsyNuIRcJax9WWAKYhVAhvxEIDpWJUB635QFOWHfcCFbxTFa3tFSuc5KIqyGChfUU9RlI6XbQLnxxyPcosleouyxaKA
rGslqCB/XymFWVLPXSi12vqv97TpHeQBJndiUlxHTOrANNNhkp87q2T6T5viZpn13ycXosoAoOxOBiqRvOiYcvkn/t65tKfROv0qj43a6/TPrP2U04p1
0vT5dt/rxWkf+Rn5vIwXp+c5/Xe+F6je1f/X6psuM7woMGy3wNajhTxF9yer4OnfN132gmCyJSqKT18dfLxtzG3jM0X50aBuw5c/1Ju5RqPxWuTOPhWZ
jkmaXP0HWdn8UVXXZ0jFbKVvenC+cGf6YX0Jb0dqXhmSqS/rEGuMNSFvWZW4w2Bloz+ruqDZFbOVvmlAO85vNOyaoSvJ9kQj9q1uTdRfb3wZYxPuIsi2
ARWzjb6p5HytXllcVwYQTQSQ/THRWaA765Xm83F9/3IApgkt36rpdgNAEGMJ89p/PDTX8ljXXK5RH9Xwa0xh9sUerPNdpBmNIeZzWEtBz6NbuzQbmgH4
LlYl9jwF3OjatN2QdPM3hTMcG3n+XggkDv60adc7ttE3DWwf8eHwLK4v7xPFAMBUogCgJr1dm4hoCpDbnNS8dgroS9SaiMjPCth+DNKoj5qZh6gFqzOT
3N0DcdTfv7/GHFZiUhz77F/VtB8Q3LQQwPx62bhdz3u/od2XefLZpR3r/XFiVZdsJDZzNvzVu2mcTfRNAz6sMZ5zfUkneq1ctZaop4r6PDpUg95MwwSi
zfzgR9SqTNVoyV57si+3guUI1KqPSjyzLjDG+hetk09ozWE1PaUmTzoeKHuA8i/9gKHtcoE7DotkBiUcUnyd84FyLx8b6JuGCPYT9eYe0QdQ7ST6SfUK
B8YT7UET+iAiIqIj0X3VHqAj0SMrmId5WvVRyTiEqmMknpZpzWE1S4WbygXAuz9wVokEmgYDQPfespFukLUad05k4tc20DfdIk6cqD5OZ0pfJSpWLSAa
rVIALCRaVELm2ae6DfQkemAFoRinVR+VzIGcOzKtOawmVHigRALrHdIwoV0ZcpS1qvHfyTyGyXIUOQ7675t+kCxw8aKzs5sTbVB9QbRYVa0UCCAyoAa9
/6uU26oH1uKaCC+t+qhkOvy1b6Y1h/Vl1/szr9EsoMRhsWqou6xnL7OfhAYLANhE33SRfEcn3hmlLwuIamzOvj+Q6P006ex/IqMhkRGM6DqA2GBYU4cD
OCjVRzV1KT7CzFK6mTF1Dr3A6O+2KA8AOPUSctv6yX5plQ0pPT3KARvomzYK5TJ+6p1RulL+I5llK1RvUEt7os5A9Jtk78Ka00dWs8R/wbEn5RFuWvVR
s5sZynb6uI4IC2IsIWamf3+NOXTguPJVZwi7lF8y73WrY5SltBhiKo2eY0KU4nu9+Mm2dTrvm17U8XpVySw7VfPLkNRd8BKRUyaA6O+leSZYDZAZtXc4
Y1r1UTOuoaUAYqcxFmwCVmjMoQNl7aQhgHV1FKXVSfP1qrsuiqK0MAEnv1QU5ftNT/H13+K4c1GPATNIjDBraeLxlYgUa63/VrE+yrz8/AcwVtEcOlv/
LYi6V6L5qyrpWq58ncQLd5/+6/Qanp77KacVq6WpLe57PWs8V+0jn404Z8ueYc/LeHF6ntP/MPDi1LsCAA==
""",
    "mono": """
UklGRugCAABXRUJQVlA4TNwCAAAvqUAGAIUk2LZN27lxvm0rts0T27Zt27Zts+X3K7Zt235M3gzOvf/kp5tGRP8duW3kSBQwaZNP+wj+/2nZ2OTVtpYd
EjsrKryHttP+EVOMqtLLjA1vmrxyp50DGwsnnxcvuGwHzGdeS5y3HkoeXHSosZ9/+Jds5z4COO9e+iFznr0nz1WRp2vQV4lzfv22l4D9rervBB50arBK
58vwmv3fS3aGF3Qpl1XALu9cLr3AFFY7pzYazFX9MsVeNnBf5HMRYiEkhmb2amTnRtA1LPmnM0r4ZRPCbKRitswuu+FBgcDYPE8BrwXZ87l/1M1VsK30
KEnHkqsnxd1nbfz0lTm38DGm37aagRJLrhbbeuW1S3JTtzdeb82hS7nnb8Kk7WGvu4UZOT/SvbTC4UvwRsxiBmzP8q1LA6VDwHMGl4fKPRzOgbX/KPqa
B3bdXBVnvV7+dtvDCjN6EXMEzuVlXh2w+kmWVQRqb5eUocN4Eq4e8HZCy96YPMCh3URMg7vah6RtDzlw4ECvmkC/gjm+KqkBpgjeaesOHFju9ccmw7kK
j7fSpMdvuzyEEDkrf9NKClEyPX37AbklA6OEEFETJIIuk8h8ZmMC0LcxpnBAu0L2lfBJu5a0eX5CCNEJuKANVX7LgWCuaOJP38DrqOFcJfddJhXhSBwA
pLkHwOh2QIRkfCsAjOkOerrDRyOJ8iEDct+ydfU4DFBGzTvtMXJeJwznKqFLYGG+xu4E3tKgF/CWQz43WaFJzvk/BNtnY7rHeiqPb7g/AT6FTYXHJ6BJ
NZaFvwWa9lBCpUYWvuyVGc1V89K9MFzKXjZvyrm8q1KgmEtDGJY+T6m88se2JIi49GeNscszl0tvDJir+2WKvoRhbTStPxyKjiqRcjrLYj5Ak/LA2RBN
+6LgcQnvMp619Azm/kU/bl51Ajw5awN4dsiGLuuZxySZ+fRrdBn8jyv1/fpVJ8nSozM2hbn//wc=
""",
    "heading": """
UklGRgwDAABXRUJQVlA4TAADAAAvlcAHAAUt2rZN29GIbdu2bdu2bdtJ2bZtO7Zt23bunR9nnXP2K+sjov8ToP+HvLlw4cITf0iLnxjSfMgTS50dBF7+
AzraBLvl0d+t2cCvbmNy/FNu+fMQrQR03X59WxegatQvsvmg58rGaIhDGyLBbq68HOzC6lshjq+/6Say+WDMPQk0krcR8Kz0GbB1SkoqSWeaxSXVwC1+
u7pmgGStN3pGQ8YrbeMzPsD58fkhbrUPPBeBp18tBgnfkpbiO0CfAVunpKRSVWjvWQ4sc1IZWGgsBKpbjYFKOpUbbzWfp2NjP2WlqQpBVqXA7uBTC3Nz
uMZApTch7llJYyC/nOYGbhg3gPwWlKhbQwOBbp+NxtqWCMo98XZjSLrHgPiVqo31uV4Iss7+dAjwpkXOkTWAPjo8uy4we/bsLwwoUbfG3QzwgKSs8ICb
pJBJdhZIYeXbIekSUCcq9bVGQKoL0s0MMNVqek4BPwJ+kNQKaljZLitSCSpImg3I68m3Q5KmQz5pOcQ96yYPxI9aySCv9ZIkrQNekfSz1QjS1q1bt24a
aG/tUdD5QN26devmhXTWWEl9IXO4l+Q9FRd+0RhoJbeNgFPGKaCJtdzzBfCtpF1WUQKWMeJHAw0m6HnjEUlDIGO45YY6QTdlhU8djQSeMZ4CRltbPWuB
tyUtt5pB/tn200ZGBX4AmDXbvmo87WyrtQQSfgeZ7jjaHA/Sr5O0Nh3E2x7oAtBb0mxrHKQ5L++9iy6+BH6SeUbhHgDuhFJZyAHj5XomkKLzxE7JgfkK
pIbAsM+mJLR2J4Vy313Ttvm5PnJxsyhkeuWMzrxecYSDd4GOs2fvDvES3l3Obo/Cf0wkxMb4eAtYeh5/J1qXEl8X51Lg/SrErTRAVcXgmvppgXT118ob
RMszQMqBm3y0soRRYPAJJzrW0sjQfq0DfZHRhcYDL8SEpJOrTsnpnd0bIgp8btuiJRfk/sqepQsP6Ve8DJJejqE/5JutYYT+bC4ESHf8T0mJVfrTeXHh
osP6Fy0=
""",
}
