// Package mutation tests the scenarios of a bundle, and the bundle by them: it
// changes one thing at a time and asks whether anybody notices.
//
// # Proposal mutants
//
// Every scenario that must be allowed is changed in one term of the decision:
// the server's endpoint, a sentence of the tool's definition, the token's
// audience, an argument, its evidence, an approval and so on. Each change has
// the answer that it must get, a function of the change and the contract: an
// unexpected audience is AUDIENCE_MISMATCH, whatever the policies say. Where
// policies decide, any denial will do: an argument, the principal, the actors
// or the caller must make a difference somewhere, or be declared in
// bundle.yaml not to be decision-bearing, with a reason.
//
// A policy draws a region, not a point: that 126 pounds are paid as 125 are is
// no fault. So the values of one argument of one tool are judged together, and
// survive when none of them was denied in any scenario.
//
// # Policy mutants
//
// Every policy is changed in one place: dropped, its effect flipped, a
// condition, an operand or a guard removed, a comparison turned by one kind, a
// literal moved by one step, its scope widened. A change that leaves every
// scenario as it should be survives: the scenarios would not notice such a
// mistake. Where a neighbour of some scenario would notice, it is printed as a
// case to add.
//
// Who decides is given to it: the package knows no decider.
package mutation
