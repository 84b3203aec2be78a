"""Sums what the test runners reported. usage: summary.py FOLDER, of JUnit files and a list of failed steps.

Prints what failed and, last, "N passed, N failed, N skipped"; exits with 1 unless something passed and nothing failed."""
import pathlib
import sys
import xml.etree.ElementTree as xml


def main():
    folder = pathlib.Path(sys.argv[1])
    passed = failed = skipped = 0
    for report in sorted(folder.glob("*.xml")):
        for case in xml.parse(report).getroot().iter("testcase"):
            kinds = {child.tag for child in case}
            if kinds & {"failure", "error"} or case.get("status") in ("fail", "notrun") and "skipped" not in kinds:
                failed += 1
                print(f"failed: {report.stem}: {case.get('classname', '')} {case.get('name')}")
            elif "skipped" in kinds or case.get("status") in ("disabled", "notrun"):
                skipped += 1
                print(f"skipped: {report.stem}: {case.get('name')}")
            else:
                passed += 1
    steps = folder / "failed_steps"
    for step in steps.read_text().splitlines() if steps.exists() else []:
        failed += 1
        print(f"failed: {step}")
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
