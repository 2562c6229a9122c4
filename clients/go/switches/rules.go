// Rules: which switches get which state, as text.
//
//	# one rule a line; the last that matches wins
//	db_*          = off
//	http_latency  = 1/10
//
// Invariant: a text is taken as a whole or not at all; an error names its line.

package switches

import (
	"fmt"
	"strings"
)

const (
	// maxRules and maxLine bound what is read from outside.
	maxRules = 10_000
	maxLine  = 1024
)

// Rule gives a state to the switches whose names match a pattern, in which * stands for any characters.
type Rule struct {
	Pattern string
	State   State
}

// String returns the rule as ParseRules reads it.
func (r Rule) String() string { return r.Pattern + " = " + r.State.String() }

// ParseRules reads rules, one a line or separated by commas; # begins a comment that ends with the line.
func ParseRules(text string) ([]Rule, error) {
	var rules []Rule
	number := 0
	for line := range strings.Lines(text) {
		number++
		line, _, _ = strings.Cut(line, "#")
		for part := range strings.SplitSeq(line, ",") {
			part = strings.TrimSpace(part)
			if part == "" {
				continue
			}
			rule, err := parseRule(part)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", number, err)
			}
			if len(rules) == maxRules {
				return nil, fmt.Errorf("line %d: more than %d rules", number, maxRules)
			}
			rules = append(rules, rule)
		}
	}
	return rules, nil
}

func parseRule(text string) (Rule, error) {
	if len(text) > maxLine {
		return Rule{}, fmt.Errorf("a rule of %d bytes, more than %d", len(text), maxLine)
	}
	pattern, state, ok := strings.Cut(text, "=")
	pattern = strings.TrimSpace(pattern)
	if !ok || pattern == "" {
		return Rule{}, fmt.Errorf("%q is not of the form name = state", text)
	}
	if strings.ContainsAny(pattern, " \t\r\v\f") {
		return Rule{}, fmt.Errorf("a space in the name %q", pattern)
	}
	parsed, err := ParseState(strings.TrimSpace(state))
	if err != nil {
		return Rule{}, err
	}
	return Rule{pattern, parsed}, nil
}

// matches reports whether a name matches a pattern. It takes time proportional to both lengths' product at worst.
func matches(pattern, name string) bool {
	// star and retry are where to go on after the last * took one more character.
	star, retry := -1, 0
	p, n := 0, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, retry = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			retry++
			p, n = star+1, retry
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// lastMatch returns the state of the last rule that matches, or nil.
func lastMatch(rules []Rule, name string) *State {
	for i := len(rules) - 1; i >= 0; i-- {
		if matches(rules[i].Pattern, name) {
			return &rules[i].State
		}
	}
	return nil
}
