"""Asks the lab. Reads one JSON case a line from standard input and writes one
code a line: what the lab's authorise() answers, or RAISED if it raises.

Usage: lab_driver.py DIRECTORY_OF_THE_LAB < cases.jsonl

A case is the form of labCase in lab_test.go.
"""

import json
import sys

sys.path.insert(0, sys.argv[1])
import secure_mcp_lab as lab  # noqa: E402

FILES, PAYMENTS = lab.build_contracts()
TRUST = lab.TrustStore()
TRUST.approve(FILES)
TRUST.approve(PAYMENTS)


def answer(case):
    base = {"files": FILES, "payments": PAYMENTS}[case["base"]]
    contract = lab.ToolContract(
        **{
            **base.__dict__,
            "server_id": case["server"],
            "endpoint": case["endpoint"],
            "name": case["tool"],
            "description": case["description"],
            "input_schema": json.loads(case["input_schema"]),
        }
    )
    token = lab.AccessToken(
        case["token_subject"], case["audience"], frozenset(case["scopes"] or []), case["expires_at"]
    )

    def proposal(approval, arguments):
        return lab.CallProposal(
            case["request_id"],
            case["intent_id"],
            lab.Principal(case["subject"], case["tenant"]),
            token,
            contract,
            arguments,
            approval,
        )

    arguments = json.loads(case["arguments"])
    approval = None
    if case["approver"] is not None:
        # An approval binds the proposal that the approver saw: this one, or an older one.
        seen = json.loads(case["approved_arguments"])
        approval = lab.Approval(case["approver"], proposal(None, seen).proposal_hash, "pay")
    return lab.authorise(proposal(approval, arguments), TRUST, now=case["now"]).code


for line in sys.stdin:
    try:
        print(answer(json.loads(line)))
    except Exception:
        print("RAISED")
