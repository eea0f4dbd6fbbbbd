package queue

// order is the order of a class's claims. New claims go first: a user waits for the pod of a new claim,
// while the record of a pod that has ended can wait until a burst is over. Every fourth turn is the others', so that ended pods
// are acted on however long claims keep coming. Among the new claims as among the others, namespaces take turns. client-go's
// queue calls it with its lock held.
type order struct {
	of            func(uid string) (namespace string, fresh bool)
	fresh, others turns
	row           int // of new claims that went before others
}

// freshInARow is how many new claims go before one of the others does.
const freshInARow = 3

// Touch leaves a claim where it stands when it is added again.
func (o *order) Touch(string) {}

// Push puts a claim last of its namespace.
func (o *order) Push(uid string) {
	namespace, fresh := o.of(uid)
	if fresh {
		o.fresh.enter(namespace, uid)
	} else {
		o.others.enter(namespace, uid)
	}
}

// Len is how many claims are in the queue.
func (o *order) Len() int { return o.fresh.length + o.others.length }

// Pop is called when Len is not 0.
func (o *order) Pop() string {
	next := &o.fresh
	if o.fresh.length == 0 || o.others.length > 0 && o.row >= freshInARow {
		next, o.row = &o.others, 0
	} else {
		o.row++
	}
	namespace, w, _ := next.first(func(string) int { return 0 })
	next.leave(namespace, w.number, true)
	return w.uid
}
