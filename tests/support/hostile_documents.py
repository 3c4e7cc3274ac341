"""About a hundred hostile documents, each of at most a few megabytes."""

import io
import json
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator

GIGABYTE = 2**30
_BLOCK = 2**20

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
MAINS = {"docx": "word/document.xml", "xlsx": "xl/workbook.xml", "pptx": "ppt/presentation.xml"}


def inflate_to(size: int, block: bytes) -> bytes:
    """Return raw deflated data of a block, repeated up to a size, without computing all of it."""
    block *= _BLOCK // len(block)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH)
    return once * (size // len(block)) + b"\x03\x00"


# Word, Excel and PowerPoint


def zip_members(members: dict[str, bytes]) -> bytes:
    """Return an archive of files."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)

    return file.getvalue()


def zip_bomb(members: dict[str, bytes], bomb: str, block: bytes) -> bytes:
    """Return an archive in which one file unpacks to a gigabyte."""
    packed = inflate_to(GIGABYTE, block)
    archive = zip_members({**members, bomb: b""})
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        place = opened.getinfo(bomb).header_offset
        directory = opened.start_dir

    # Replace the empty file, and correct the sizes and places in the directory.
    length = 30 + len(bomb) + 2  # an empty file is deflated into two bytes
    raw = bytearray(archive[:place] + archive[place : place + length - 2] + packed)
    struct.pack_into("<III", raw, place + 14, 0, len(packed), GIGABYTE)
    shift = len(packed) - 2
    raw += archive[place + length : directory]
    entries = bytearray(archive[directory:])
    entry = entries.rindex(b"PK\x01\x02", 0, entries.rindex(bomb.encode()))
    struct.pack_into("<III", entries, entry + 16, 0, len(packed), GIGABYTE)
    end = entries.rindex(b"PK\x05\x06")
    struct.pack_into("<I", entries, end + 16, directory + shift)
    return bytes(raw + entries)


def relate(**targets: str) -> bytes:
    """Return the file of relations from ids to ``type target``."""
    lines = ""
    for name, target in targets.items():
        kind, _, path = target.partition(" ")
        lines += f'<Relationship Id="{name}" Type="{OFFICE}/{kind}" Target="{path}"/>'

    return f'<Relationships xmlns="{PACKAGE}">{lines}</Relationships>'.encode()


def build_office(kind: str, content: bytes) -> dict[str, bytes]:
    """Return the files of a document that has one file of content, however it is related."""
    main = MAINS[kind]
    members = {"_rels/.rels": relate(rId1=f"officeDocument {main}")}
    if kind == "docx":
        return {**members, main: content}

    folder, _, file = main.partition("/")
    name, element = ("worksheet", "sheet") if kind == "xlsx" else ("slide", "sldId")
    listing = f'<x xmlns:r="{OFFICE}"><{element} name="One" id="1" r:id="rId1"/></x>'
    return {
        **members,
        main: listing.encode(),
        f"{folder}/_rels/{file}.rels": relate(rId1=f"{name} content.xml"),
        f"{folder}/content.xml": content,
    }


def write_xml(kind: str, text: str, before: str = "") -> bytes:
    """Return a file of content with a text, such as an entity."""
    if kind == "xlsx":
        return f'{before}<x><row><c t="str"><v>{text}</v></c></row></x>'.encode()

    return f"{before}<x><p><r><t>{text}</t></r></p></x>".encode()


def list_contents(kind: str, canary: str) -> Iterator[tuple[str, bytes]]:
    """Yield hostile files of content; ``canary`` is the path of a file that must not be read."""
    lol = '<!ENTITY a0 "lol">' + "".join(
        f'<!ENTITY a{level} "{f"&a{level - 1};" * 10}">' for level in range(1, 12)
    )
    entities = {
        "laughs": (lol, "&a11;"),
        "quadratic": (f'<!ENTITY a "{"a" * 100_000}">', "&a;" * 30_000),
        "external": (f'<!ENTITY a SYSTEM "file://{canary}">', "&a;"),
        "remote": ('<!ENTITY a SYSTEM "http://127.0.0.1:9/x">', "&a;"),
        "loop": ('<!ENTITY a "&b;"><!ENTITY b "&a;">', "&a;"),
        "parameter": (f'<!ENTITY % p SYSTEM "file://{canary}"> %p;', "x"),
    }
    for name, (declaration, text) in entities.items():
        yield name, write_xml(kind, text, f"<!DOCTYPE x [{declaration}]>")

    yield "doctype", write_xml(kind, "x", f'<!DOCTYPE x SYSTEM "file://{canary}">')
    yield "deep", b"<x>" * 2_000_000
    yield "deep-tables", b"<x>" + b"<tbl><tr><tc><p>" * 300_000
    yield "attribute", b"<x a='" + b"a" * 10_000_000
    yield "attributes", b"<x " + b" ".join(b"a%d='1'" % n for n in range(500_000)) + b"/>"
    yield "prefixes", b"<x " + b" ".join(b"xmlns:a%d='u%d'" % (n, n) for n in range(300_000))
    yield "truncated", write_xml(kind, "half")[:-9]
    yield "bytes", b"<x>\xff\xfe\x00</x>"
    yield "utf-16", '<?xml version="1.0" encoding="utf-16"?><x/>'.encode("utf-16")
    yield "encoding", b'<?xml version="1.0" encoding="uu"?><x/>'
    yield "empty", b""
    yield "many", b"<x>" + write_xml(kind, "a")[3:-4] * 300_000 + b"</x>"


def list_archives(kind: str, canary: str) -> Iterator[tuple[str, bytes]]:
    """Yield hostile archives."""
    for name, content in list_contents(kind, canary):
        yield name, zip_members(build_office(kind, content))

    plain = build_office(kind, write_xml(kind, "fine"))
    main = MAINS[kind]
    whole = zip_members(plain)
    yield "cut-short", whole[: len(whole) // 2]
    yield "no-directory", whole[:-30]
    yield "no-main", zip_members({"_rels/.rels": plain["_rels/.rels"]})
    yield "no-relations", zip_members({main: plain[main]})
    yield "outside", zip_members({"_rels/.rels": relate(a=f"officeDocument ../../..{canary}")})
    yield "absolute", zip_members({"_rels/.rels": relate(a=f"officeDocument file://{canary}")})
    yield "itself", zip_members({"_rels/.rels": relate(a="officeDocument _rels/.rels")})
    yield (
        "encrypted",
        whole.replace(b"PK\x03\x04\x14\0\0", b"PK\x03\x04\x14\0\1").replace(
            b"PK\x01\x02\x14\x03\x14\0\0", b"PK\x01\x02\x14\x03\x14\0\1"
        ),
    )
    yield "method", whole.replace(b"\x08\0", b"\x63\0")
    yield "ole", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(3000)
    yield "garbage", b"PK\x03\x04" + random.Random(kind).randbytes(5000)

    bomb = next(reversed(plain))
    yield "bomb-spaces", zip_bomb(plain, bomb, b" ")
    yield "bomb-zeros", zip_bomb(plain, bomb, b"\0")
    yield "bomb-relations", zip_bomb(plain, "_rels/.rels", b"<a/>")

    link = zipfile.ZipInfo(bomb)
    link.external_attr = 0o120777 << 16
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in plain.items():
            archive.writestr(link if name == bomb else name, canary if name == bomb else content)
    yield "symlink", file.getvalue()


def list_workbooks() -> Iterator[tuple[str, bytes]]:
    """Yield workbooks with impossible cells."""
    cells = {
        "columns": '<row><c r="ZZZ1" t="str"><v>x</v></c></row>' * 50_000,
        "row-number": f'<row r="{"9" * 5000}"><c><v>1</v></c></row>',
        "string-number": '<row><c t="s"><v>99999999</v></c></row>',
        "number": '<row><c s="0"><v>1e999999</v></c></row>',
    }
    for name, rows in cells.items():
        yield name, zip_members(build_office("xlsx", f"<x>{rows}</x>".encode()))


# PDF


def build_pdf(*objects: bytes, root: int = 1, trailer: bytes = b"") -> bytes:
    """Return a PDF with numbered objects and a table of their places."""
    raw = bytearray(b"%PDF-1.7\n")
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(raw))
        raw += b"%d 0 obj\n%b\nendobj\n" % (number, body)

    table = len(raw)
    raw += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    raw += b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    raw += b"trailer\n<</Size %d/Root %d 0 R%b>>\n" % (size, root, trailer)
    return bytes(raw + b"startxref\n%d\n%%%%EOF" % table)


def write_stream(content: bytes, entries: bytes = b"") -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(content), content)


CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
PAGES = b"<</Type/Pages/Kids[3 0 R]/Count 1>>"
PAGE = (
    b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>"
)
FONT = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
SHOW = b"BT /F 9 Tf (fine) Tj ET"
_ONE_PAGE = (CATALOG, PAGES, PAGE)


def list_pdfs(canary: str) -> Iterator[tuple[str, bytes]]:
    """Yield hostile PDF files."""
    path = canary.encode()
    whole = build_pdf(*_ONE_PAGE, write_stream(SHOW), FONT)
    for tenths in range(1, 10, 2):
        yield f"truncated-{tenths}", whole[: len(whole) * tenths // 10]

    yield "empty", b"%PDF-1.7\n"
    yield "garbage", b"%PDF-1.7\n" + random.Random(1).randbytes(20_000)
    yield "pages-loop", build_pdf(CATALOG, b"<</Type/Pages/Kids[2 0 R]/Count 1>>")
    yield "pages-many", build_pdf(CATALOG, b"<</Type/Pages/Kids[%b]/Count 9>>" % (b"2 0 R " * 2000))
    yield "count", build_pdf(CATALOG, b"<</Type/Pages/Kids[3 0 R]/Count 999999999>>", PAGE)
    yield (
        "parent-loop",
        build_pdf(
            CATALOG,
            b"<</Type/Pages/Kids[3 0 R]/Count 1/Parent 3 0 R>>",
            PAGE.replace(b"2 0", b"3 0"),
        ),
    )
    yield (
        "deep-pages",
        build_pdf(
            CATALOG, *(b"<</Type/Pages/Kids[%d 0 R]/Count 1>>" % (n + 3) for n in range(5000))
        ),
    )
    yield "self", build_pdf(CATALOG, b"2 0 R")
    yield "contents-loop", build_pdf(*_ONE_PAGE, b"[4 0 R 4 0 R]", FONT)
    yield "arrays", build_pdf(CATALOG, b"[" * 1_000_000)
    yield "dictionaries", build_pdf(CATALOG, b"<</A " * 500_000)
    yield "strings", build_pdf(CATALOG, b"(" * 1_000_000)
    yield "previous", whole.replace(b"/Root", b"/Prev 9/Root")
    table = whole.rindex(b"xref\n0")
    yield "previous-self", build_pdf(*_ONE_PAGE, FONT, FONT, trailer=b"/Prev %d" % table)
    yield "xref-huge", whole.replace(b"xref\n0 6", b"xref\n0 999999999")
    yield "no-xref", whole[:table] + b"1 0 obj " * 100_000
    javascript = b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/JavaScript/JS(while(1);)>>>>"
    yield "javascript", build_pdf(javascript, PAGES, PAGE, write_stream(SHOW), FONT)
    launch = b"<</Type/Catalog/Pages 2 0 R/OpenAction<</S/Launch/F(%b)>>>>" % path
    yield "launch", build_pdf(launch, PAGES, PAGE, write_stream(SHOW), FONT)
    yield "external", build_pdf(*_ONE_PAGE, write_stream(b"", b"/F(%b)" % path), FONT)
    yield "length", build_pdf(*_ONE_PAGE, b"<</Length 999999999>>stream\nx\nendstream", FONT)
    yield "negative", build_pdf(*_ONE_PAGE, b"<</Length -9>>stream\nx\nendstream", FONT)

    spaces = inflate_to(GIGABYTE, b" ")
    packed = b"\x78\x9c" + spaces
    flate = b"/Filter/FlateDecode"
    yield "bomb", build_pdf(*_ONE_PAGE, write_stream(packed, flate), FONT)
    operators = b"\x78\x9c" + inflate_to(GIGABYTE // 8, b"BT () Tj ET ".ljust(16))
    yield "operators", build_pdf(*_ONE_PAGE, write_stream(operators, flate), FONT)
    twice = zlib.compress(packed)
    both = b"/Filter[/FlateDecode/FlateDecode]"
    yield "bomb-twice", build_pdf(*_ONE_PAGE, write_stream(twice, both), FONT)
    many = b"/Filter[%b]" % (b"/ASCIIHexDecode" * 5000)
    yield "filters", build_pdf(*_ONE_PAGE, write_stream(b"41" * 1000, many), FONT)
    lzw = write_stream(b"\x80\x0b\x60\x50\x22\x0c\x0c\x85" * 200_000, b"/Filter/LZWDecode")
    yield "lzw", build_pdf(*_ONE_PAGE, lzw, FONT)
    runs = write_stream(b"\x81\x20" * 2_000_000, b"/Filter/RunLengthDecode")
    yield "runs", build_pdf(*_ONE_PAGE, runs, FONT)
    columns = flate + b"/DecodeParms<</Predictor 15/Columns 999999999>>"
    yield "predictor", build_pdf(*_ONE_PAGE, write_stream(zlib.compress(SHOW), columns), FONT)

    wide = b"1 begincodespacerange <0000><FFFFFFFF> endcodespacerange\n"
    wide += b"1 beginbfrange <00000000><7FFFFFFF><0041> endbfrange"
    composite = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/ToUnicode 6 0 R>>"
    yield "cmap", build_pdf(*_ONE_PAGE, write_stream(SHOW), composite, write_stream(wide))
    form = b"/Type/XObject/Subtype/Form/Resources<</XObject<</X 5 0 R>>>>"
    page = PAGE.replace(b"/Font<</F 5 0 R>>", b"/XObject<</X 5 0 R>>")
    do = b"/X Do " * 20
    yield "forms", build_pdf(CATALOG, PAGES, page, write_stream(do), write_stream(do, form))
    objects = b"/Type/ObjStm/N 99999999/First 9" + flate
    yield "object-stream", build_pdf(CATALOG, write_stream(packed, objects))
    kids = b"<</Type/Pages/Kids[%b]/Count 300000>>" % (b"3 0 R " * 300_000)
    yield "pages-same", build_pdf(CATALOG, kids, PAGE, write_stream(SHOW), FONT)
    for revision in (2, 3, 9):
        secret = b"<</Filter/Standard/V %d/R %d/O(%b)/U(%b)/P -4>>" % (
            revision - 1, revision, b"o" * 32, b"u" * 32,
        )  # fmt: skip
        locked = build_pdf(*_ONE_PAGE, write_stream(SHOW), FONT, secret, trailer=b"/Encrypt 6 0 R")
        yield f"encrypted-{revision}", locked


def list_notebooks() -> Iterator[tuple[str, bytes]]:
    """Yield hostile notebooks."""
    yield "deep", b'{"cells": ' + b"[" * 1_000_000
    yield "types", b'{"cells": {"a": 1}}'
    yield "number", b'{"cells": [{"source": %b}]}' % (b"9" * 100_000)
    yield (
        "endless",
        json.dumps({"cells": [{"cell_type": "raw", "source": "x\n" * 3_000_000}]}).encode(),
    )
    yield "binary", b'{"cells": "\0\xff' + bytes(1000)


def list_hostile(canary: str) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of all hostile documents."""
    sources = [("pdf", list_pdfs(canary)), ("ipynb", list_notebooks()), ("xlsx", list_workbooks())]
    sources += [(kind, list_archives(kind, canary)) for kind in MAINS]
    for suffix, documents in sources:
        for name, content in documents:
            yield f"{name}.{suffix}", content
