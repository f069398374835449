"""Workflows of the bundled company that change something, or that the API or the request's own rule forbids."""

from __future__ import annotations

from envs.tools.workflow.company_tables import METHODS, PRIORITIES
from envs.tools.workflow.scenario import OTHERWISE, Draft, NoCase


def cancel(draft: Draft) -> None:
    """Cancel the latest order of a customer, unless it has left."""
    customer = draft.pick("customers", lambda row: bool(draft.where("orders", customer_id=row["id"])))
    (customer,) = draft.list("listCustomers", "customers", name=customer["name"])
    order = draft.list("listOrders", "orders", customer_id=customer["id"])[-1]
    draft.possible = order["status"] in ("open", "packed")
    if draft.possible:
        draft.do("cancelOrder", id=order["id"])
    draft.request = (
        f"The customer {customer['name']} wants to cancel their order with the highest number. {OTHERWISE} Report the "
        "number of the order and the status that it had when you looked."
    )
    draft.values = [order["id"], order["status"]]


def payment(draft: Draft) -> None:
    """Enter a payment of an invoice, unless it is not open."""
    invoice = draft.pick("invoices")
    order = invoice["order_id"]
    method = METHODS[int(draft.rng.integers(len(METHODS)))]
    day = f"2031-05-{int(draft.rng.integers(1, 29)):02}"
    (invoice,) = draft.list("listInvoices", "invoices", order_id=order)
    draft.possible = invoice["status"] == "open"
    if draft.possible:
        draft.do("createPayment", invoice_id=invoice["id"], amount=invoice["amount"], method=method, date=day)
    draft.request = (
        f"On {day} the whole amount of the invoice for order number {order} came in by {method}. Enter the payment. "
        f"{OTHERWISE} Report the number of the invoice, its amount, and the status that it had when you looked."
    )
    draft.values = [invoice["id"], invoice["amount"], invoice["status"]]


def assign(draft: Draft) -> None:
    """Give a customer's ticket to the head of a department, unless it is closed."""
    ticket = draft.pick("tickets")
    name = draft.pick("departments")["name"]
    customer = draft.rows["customers"][ticket["customer_id"] - 1]
    draft.list("listCustomers", "customers", name=customer["name"])
    (ticket,) = draft.list("listTickets", "tickets", customer_id=customer["id"], subject=ticket["subject"])
    (department,) = draft.list("listDepartments", "departments", name=name)
    head = draft.get("getEmployee", "employees", department["head_id"])
    if ticket["assignee_id"] == head["id"]:
        raise NoCase
    draft.possible = ticket["status"] != "closed"
    if draft.possible:
        draft.do("assignTicket", id=ticket["id"], assignee_id=head["id"])
    draft.request = (
        f"Assign the ticket of the customer {customer['name']} with the subject '{ticket['subject']}' to the head of "
        f"the department {name}. {OTHERWISE} Report the number of the ticket and the name of that head."
    )
    draft.values = [ticket["id"], head["name"]]


def report(draft: Draft) -> None:
    """Create a ticket and assign it to the customer's owner, unless that one has left."""
    customer = draft.pick("customers")
    priority = PRIORITIES[int(draft.rng.integers(len(PRIORITIES)))]
    subject = f"Shelf {int(draft.rng.integers(2, 90))} is bent"
    draft.list("listCustomers", "customers", name=customer["name"])
    employee = draft.get("getEmployee", "employees", customer["owner_id"])
    draft.possible = bool(employee["active"])
    number = len(draft.rows["tickets"]) + 1
    if draft.possible:
        draft.do("createTicket", customer_id=customer["id"], subject=subject, priority=priority)
        draft.do("assignTicket", id=number, assignee_id=employee["id"])
    draft.request = (
        f"The customer {customer['name']} reports a fault. If the employee who looks after this customer is active, "
        f"create a ticket with the subject '{subject}' and {priority} priority and assign it to that employee; if not, "
        "change nothing and report that it is not possible. Report the e-mail address of the employee."
    )
    draft.values = [employee["email"]]


def reach(draft: Draft) -> None:
    """Change the phone number of the main contact."""
    customer = draft.pick("customers")
    phone = f"+{int(draft.rng.integers(30, 50))} {int(draft.rng.integers(100000, 999999))}"
    draft.list("listCustomers", "customers", name=customer["name"])
    (contact,) = draft.list("listContacts", "contacts", customer_id=customer["id"], main=1)
    draft.do("updateContact", id=contact["id"], phone=phone)
    draft.request = (
        f"The main contact of the customer {customer['name']} has a new phone number, {phone}. Enter it. Report the "
        "name of that person and the phone number that was entered before."
    )
    draft.values = [contact["name"], contact["phone"]]


def leave(draft: Draft) -> None:
    """Approve an absence, unless a colleague is away at the same time."""
    absence = draft.pick("absences", lambda row: row["status"] == "requested")
    employee = draft.rows["employees"][absence["employee_id"] - 1]
    if len(draft.where("absences", employee_id=employee["id"], status="requested")) > 1:
        raise NoCase
    draft.list("listEmployees", "employees", name=employee["name"])
    draft.list("listAbsences", "absences", employee_id=employee["id"], status="requested")
    colleagues = draft.list("listEmployees", "employees", department_id=employee["department_id"])
    numbers = {row["id"] for row in colleagues} - {employee["id"]}
    absences = draft.list("listAbsences", "absences", status="approved")
    clashes = [
        row
        for row in absences
        if row["employee_id"] in numbers
        if row["first_day"] <= absence["last_day"] and absence["first_day"] <= row["last_day"]
    ]
    draft.possible = not clashes
    if draft.possible:
        draft.do("approveAbsence", id=absence["id"])
    draft.request = (
        f"Approve the requested absence of {employee['name']}, but only if no other employee of the same department, "
        "active or not, has an approved absence on any day of it. Otherwise change nothing and report that it is not "
        "possible. Report the number of that requested absence, its first day, and how many approved absences of "
        "others in the department share a day with it."
    )
    draft.values = [absence["id"], absence["first_day"], len(clashes)]


def extend(draft: Draft) -> None:
    """Add a product to an open order, if the stock suffices."""
    order = draft.pick("orders", lambda row: row["status"] == "open")
    present = {line["product_id"] for line in draft.where("order_lines", order_id=order["id"])}
    product = draft.pick("products", lambda row: row["id"] not in present)
    quantity = int(draft.rng.integers(5, 40))
    draft.list("listProducts", "products", name=product["name"])
    draft.possible = product["stock"] >= quantity
    if draft.possible:
        draft.do("createOrderLine", order_id=order["id"], product_id=product["id"], quantity=quantity)
    draft.request = (
        f"Add {quantity} pieces of the {product['name']} to order number {order['id']}. {OTHERWISE} Report how many "
        "pieces of the product were in stock before, and its price in euros."
    )
    draft.values = [product["stock"], product["price"]]


def restock(draft: Draft) -> None:
    """Set the stock of several products of a supplier."""
    limit, level = int(draft.rng.integers(5, 25)), int(draft.rng.integers(60, 100))
    name = draft.pick("suppliers")["name"]
    (firm,) = draft.list("listSuppliers", "suppliers", name=name)
    products = draft.list("listProducts", "products", supplier_id=firm["id"])
    short = [product for product in products if product["stock"] < limit]
    if not 1 <= len(short) <= 5:
        raise NoCase
    for product in short:
        draft.do("restockProduct", id=product["id"], stock=level)
    draft.request = (
        f"A delivery has come of every product of {name} of which fewer than {limit} pieces are in stock. Set the "
        f"stock of each of these products to {level} pieces. Report how many products you have set, and how many "
        "pieces of them all together were in stock before."
    )
    draft.values = [len(short), sum(product["stock"] for product in short)]


CHANGES = (cancel, payment, assign, report, reach, leave, extend, restock)
