"""Prints api_activity.json: the facts of OCSF's API Activity class that the
tests need, from the published schema that the PyPI package ocsf-json-schema
carries. Usage: python3 facts.py VERSION"""

import hashlib
import importlib.resources
import json
import sys

version = sys.argv[1]
# What events are made of. Any other object in an event is an error.
objects = ["actor", "api", "authorization", "idp", "metadata", "network_endpoint", "object", "organization",
           "policy", "product", "request", "resource_details", "response", "service", "trace", "user"]
data = (importlib.resources.files("ocsf_json_schema") / "ocsf" / (version + ".json")).read_bytes()
schema = json.loads(data)
types = schema["dictionary"]["types"]["attributes"]
used = set()


def facts(entity):
    attributes = {}
    for name, a in sorted(entity["attributes"].items()):
        fact = {"type": a["type"] if a["type"] != "object_t" else a["object_type"], "requirement": a["requirement"]}
        if a["type"] == "object_t":
            fact["object"] = True
        else:
            used.add(a["type"])
        if a.get("is_array"):
            fact["array"] = True
        if a.get("profiles"):
            fact["profiles"] = a["profiles"]
        if "@deprecated" in a:
            fact["deprecated"] = True
        if "enum" in a:
            fact["enum"] = {value: e["caption"] for value, e in a["enum"].items()}
        if "sibling" in a:
            fact["sibling"] = a["sibling"]
        attributes[name] = fact
    return {"at_least_one": entity.get("constraints", {}).get("at_least_one", []), "attributes": attributes}


api = schema["classes"]["api_activity"]
out = {
    "source": f"https://schema.ocsf.io/{version}/export/v2/schema, sha256 {hashlib.sha256(data).hexdigest()}, reduced by facts.py",
    "version": schema["version"],
    "class": {"name": api["name"], "caption": api["caption"], "uid": api["uid"], "category_uid": api["category_uid"],
              "category_name": api["category_name"], "profiles": api["profiles"]},
    "entities": {"api_activity": facts(api), **{name: facts(schema["objects"][name]) for name in objects}},
}
out["types"] = {name: {k: types[name][k] for k in ("type", "regex", "max_len", "range") if k in types[name]} for name in sorted(used)}


def show(value, depth=0):
    """One line for each attribute."""
    if depth < 4 and isinstance(value, dict) and any(isinstance(v, dict) for v in value.values()):
        pad = " " * depth
        return "{\n" + ",\n".join(f"{pad} {json.dumps(k)}: {show(v, depth + 1)}" for k, v in value.items()) + "\n" + pad + "}"
    return json.dumps(value)


print(show(out))
