package main

import (
	"fmt"
	"math"
	"strconv"
)

// numbersRequest asks for Go's function of numbers, given and answered as their bits in hexadecimal.
type numbersRequest struct {
	Function string   `json:"function"`
	Args     []string `json:"args"`
	// Second arguments, of functions that have one.
	Second []string `json:"second"`
}

var ofOne = map[string]func(float64) float64{
	"acos": math.Acos, "acosh": math.Acosh, "asin": math.Asin, "asinh": math.Asinh, "atan": math.Atan,
	"atanh": math.Atanh, "cos": math.Cos, "cosh": math.Cosh, "exp": math.Exp,
	"ln": math.Log, "exp2": math.Exp2, "log10": math.Log10, "log1p": math.Log1p, "log2": math.Log2, "sin": math.Sin,
	"sinh": math.Sinh, "tan": math.Tan, "tanh": math.Tanh,
}

var ofTwo = map[string]func(float64, float64) float64{
	"atan2": math.Atan2, "pow": math.Pow,
}

func (req numbersRequest) answer() (any, error) {
	one, two := ofOne[req.Function], ofTwo[req.Function]
	if one == nil && (two == nil || len(req.Second) != len(req.Args)) {
		return nil, fmt.Errorf("no function %q of these", req.Function)
	}
	results := make([]string, len(req.Args))
	for at := range req.Args {
		x, err := fromBits(req.Args[at])
		if err != nil {
			return nil, err
		}
		var result float64
		if one != nil {
			result = one(x)
		} else {
			y, err := fromBits(req.Second[at])
			if err != nil {
				return nil, err
			}
			result = two(x, y)
		}
		results[at] = strconv.FormatUint(math.Float64bits(result), 16)
	}
	return results, nil
}

func fromBits(text string) (float64, error) {
	bits, err := strconv.ParseUint(text, 16, 64)
	return math.Float64frombits(bits), err
}
