"""Prints the JSON Schema that the PyPI package ocsf-json-schema makes of the
published API Activity class. Usage: python3 schema.py VERSION PROFILE..."""

import json
import sys

from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

print(json.dumps(OcsfJsonSchemaEmbedded(get_ocsf_schema(version=sys.argv[1])).get_class_schema("api_activity", sys.argv[2:])))
